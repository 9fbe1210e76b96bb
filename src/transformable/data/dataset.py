"""The interface of every dataset."""

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
    """Subtracted from each channel, in the units of the images; empty before they are read, and if
    they are not normalised."""
    std: tuple[float, ...] = field(default=(), compare=False)
    """Each channel is then divided by it."""
    pixels: bool = field(default=True, compare=False)
    """Whether the images are pixels of 0 to 255 before they are normalised, or other floats."""


class Split(Protocol):
    """Images with labels, in batches of float32 channels-last images and int64 labels.

    ``batch_size`` is that of all ``world`` processes together; each process gets its share.
    """

    @property
    def labels(self) -> Tensor: ...

    def __len__(self) -> int: ...

    def subset(self, indexes: Tensor) -> "Split":
        """The samples at ``indexes``, in that order."""
        ...

    def steps(self, batch_size: int) -> int:
        """The number of batches in one epoch of ``shuffled``."""
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
        """Augmented batches of one epoch from step ``start`` on, without the last, short one.

        Each batch depends on (seed, epoch, step) alone, so that an epoch resumed in its middle
        gives the same bits as one that was not interrupted.
        """
        ...

    def ordered(
        self, batch_size: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Every sample once, in order, not augmented."""
        ...


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Three splits of one set; which samples are in validation does not change the test split."""

    info: Info
    train: Split
    validation: Split
    test: Split
