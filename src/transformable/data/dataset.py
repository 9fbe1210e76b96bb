"""The interface of every dataset."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from torch import Tensor

from . import batches

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


@dataclass(frozen=True, kw_only=True, eq=False)
class Split(ABC):
    """Images with labels, in batches of float32 channels-last images and int64 labels.

    ``batch_size`` is that of all ``world`` processes together; each process gets its share.
    """

    labels: Tensor
    mean: Tensor
    """Of each channel, in the units of the images before they are normalised."""
    std: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def subset(self, indexes: Tensor) -> Self:
        """The samples at ``indexes``, in that order."""

    def steps(self, batch_size: int) -> int:
        """The number of batches in one epoch of ``shuffled``."""
        return batches.steps(len(self), batch_size)

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
        plan = batches.shuffled(
            len(self), batch_size, seed=seed, epoch=epoch, start=start, world=world
        )
        return self._augmented(plan, seed, epoch, slice(rank, None, world))

    def ordered(
        self, batch_size: int, *, rank: int = 0, world: int = 1
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Every sample once, in order, not augmented."""
        plan = batches.ordered(len(self), batch_size, world=world)
        return self._plain([indexes[rank::world] for indexes in plan])

    @abstractmethod
    def _augmented(
        self, plan: list[tuple[int, Tensor]], seed: int, epoch: int, own: slice
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The part ``own`` of each global batch (step, indexes), augmented."""

    @abstractmethod
    def _plain(self, plan: list[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """The samples of each batch, not augmented."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Three splits of one set; which samples are in validation does not change the test split."""

    info: Info
    train: Split
    validation: Split
    test: Split
