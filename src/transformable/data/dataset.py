"""The interface of every dataset."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import torch
from torch import Tensor, nn

from ..layers import in_order
from ..seeds import generator
from ..task import Classification, Task

__all__ = ["Batches", "Dataset", "Info", "Split"]

Network = TypeVar("Network", bound=nn.Module)
Batches = Iterator[tuple[Tensor, Tensor]]
"""Images and targets, batch by batch."""


@dataclass(frozen=True, kw_only=True)
class Info:
    """What is known of a dataset before any pixel is read: its images' size, its classes."""

    name: str
    """The value of ``--data``; for a user's own data, its name."""
    input_shape: tuple[int, int, int]
    """Channels, height, width."""
    num_classes: int
    """0 if the targets are not classes."""
    classes: tuple[str, ...]
    """The names of the classes; empty if there are none."""
    mean: tuple[float, ...] = field(default=(), compare=False)
    """Subtracted from each channel, in the units of the images; empty before they are read, and if
    they are not normalised."""
    std: tuple[float, ...] = field(default=(), compare=False)
    """Each channel is then divided by it."""
    pixels: bool = field(default=True, compare=False)
    """Whether the images are pixels of 0 to 255 before they are normalised, or other floats."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Split(ABC):
    """Images with targets, in batches of float32 images and targets.

    ``batch_size`` is that of all ``world`` processes together; each process gets its share.
    """

    labels: Tensor
    """The class of each image; parts of a split keep their proportions. All 0 without classes."""
    memory_format: torch.memory_format = torch.channels_last
    """The order of a batch in memory."""

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} images)"

    @abstractmethod
    def subset(self, indexes: Tensor) -> Self:
        """The samples at ``indexes``, in that order."""

    def steps(self, batch_size: int) -> int:
        """The number of batches in one epoch of ``shuffled``: a short one only if none is full."""
        _check_batch_size(batch_size)
        return max(len(self) // batch_size, min(len(self), 1))

    def shuffled(
        self,
        batch_size: int,
        *,
        seed: int,
        epoch: int,
        start: int = 0,
        rank: int = 0,
        world: int = 1,
    ) -> Batches:
        """Augmented batches of one epoch from step ``start`` on, without the last, short one.

        Each batch depends on (seed, epoch, step) alone, so that an epoch resumed in its middle
        has the same bits as one that was not interrupted.
        """
        _check_batch_size(batch_size, world)
        if start < 0:
            raise ValueError(f"start must be 0 or more, not {start}")
        order = torch.from_numpy(generator("order", seed, epoch).permutation(len(self)))
        steps = range(start, self.steps(batch_size))
        plan = {step: order[step * batch_size : (step + 1) * batch_size] for step in steps}
        return self._in_order(self._augmented(plan, seed, epoch, slice(rank, None, world)))

    def ordered(self, batch_size: int, *, rank: int = 0, world: int = 1) -> Batches:
        """Every sample once, in order, not augmented."""
        _check_batch_size(batch_size, world)
        starts = range(0, len(self), batch_size)
        plan = [torch.arange(start, min(start + batch_size, len(self))) for start in starts]
        # with less than one sample per process in the last batch, some processes would have a batch
        # less than others, and those that synchronise at every batch would wait for ever
        if len(plan) > 1 and len(plan[-1]) < world:
            plan[-2:] = [torch.cat(plan[-2:])]
        return self._in_order(self._plain([indexes[rank::world] for indexes in plan]))

    def arrange(self, network: Network) -> Network:
        """Store the weights of a network in the order of the batches, in place; returns it."""
        network.to(memory_format=self.memory_format)  # type: ignore[call-overload]
        return network

    def _in_order(self, batches: Batches) -> Batches:
        for x, y in batches:
            yield in_order(x, self.memory_format), y

    @abstractmethod
    def _augmented(self, plan: dict[int, Tensor], seed: int, epoch: int, own: slice) -> Batches:
        """The part ``own`` of each global batch, augmented; the plan has its indexes by step."""

    @abstractmethod
    def _plain(self, plan: list[Tensor]) -> Batches:
        """The samples of each batch, not augmented."""


def _check_batch_size(batch_size: int, world: int = 1) -> None:
    if batch_size < 1:
        raise ValueError(f"batch size must be 1 or more, not {batch_size}")
    if batch_size < world:
        raise ValueError(
            f"batch size {batch_size} is too small for {world} processes; give {world} or more"
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Dataset:
    """Three splits of one set; which samples are in validation does not change the test split."""

    info: Info
    """Its name, the size of its images, its classes."""
    train: Split
    """What is learnt from, augmented."""
    validation: Split
    """Held out of the training images, for validation; may be empty."""
    test: Split
    """Read once, when a network is done."""
    task: Task = field(default_factory=Classification)
    """What is learnt from the targets."""
    fingerprint: str = ""
    """Identifies the images of all three splits; empty if it is not known."""

    def in_memory_format(self, memory_format: torch.memory_format) -> Self:
        """The same dataset with batches in this order in memory."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        changed = {name: replace(part, memory_format=memory_format) for name, part in parts.items()}
        return replace(self, **changed)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        size, count = "x".join(map(str, self.info.input_shape)), self.info.num_classes
        return (
            f"Dataset({self.info.name}: {len(self.train)} training, {len(self.validation)} "
            f"validation and {len(self.test)} test images of {size}"
            f"{f', {count} classes' if count else ''})"
        )
