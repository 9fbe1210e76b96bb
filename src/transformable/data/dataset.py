"""What every dataset looks like to the rest of the package."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

__all__ = ["Dataset", "Info", "Split"]


@dataclass(frozen=True, kw_only=True)
class Info:
    """What a network must know of a dataset before any pixel is read."""

    name: str
    input_shape: tuple[int, int, int]
    """Channels, height, width."""
    num_classes: int
    classes: tuple[str, ...]
    mean: tuple[float, ...] = field(default=(), compare=False)
    """What is subtracted from the pixels (0 to 255) of each channel, once they are read; empty if
    nothing is."""
    std: tuple[float, ...] = field(default=(), compare=False)
    """What they are divided by then."""


class Split(Protocol):
    """Images with labels, handed out in batches: float32 channels-last images, int64 labels.

    `batch_size` counts the samples of all `world` processes together; a process gets its share.
    """

    @property
    def labels(self) -> Tensor: ...

    def __len__(self) -> int: ...

    def subset(self, indexes: Tensor) -> "Split":
        """The samples at `indexes`, in that order."""
        ...

    def steps(self, batch_size: int) -> int:
        """How many batches one epoch of `shuffled` has."""
        ...

    def shuffled(
        self,
        batch_size: int,
        *,
        seed: int,
        epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Augmented batches of one epoch from step `start` on, the last short one dropped.

        Each batch is a function of (seed, epoch, step) alone, so an epoch that is entered in its
        middle gives the same bits as one that was never left.
        """
        ...

    def ordered(
        self, batch_size: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Every sample once, in order, not augmented."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Three splits of one set; the test split does not depend on how validation was cut."""

    info: Info
    train: Split
    validation: Split
    test: Split
