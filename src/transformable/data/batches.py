"""The samples of each batch, for every kind of split."""

import torch
from torch import Tensor

from ..seeds import generator

__all__ = ["ordered", "shuffled", "steps"]


def steps(count: int, batch_size: int) -> int:
    """The number of steps in an epoch: full batches, or one short batch if there is no full one.

    >>> steps(1000, 128), steps(100, 128), steps(0, 128)
    (7, 1, 0)
    """
    if batch_size < 1:
        raise ValueError(f"batch size {batch_size} is impossible; give 1 or more")
    return max(count // batch_size, min(count, 1))


def shuffled(
    count: int, batch_size: int, *, seed: int, epoch: int, start: int = 0, world: int = 1
) -> list[tuple[int, Tensor]]:
    """(step, indexes of the global batch) from step ``start`` to the end of the epoch."""
    total = steps(count, batch_size)
    _check_world(batch_size, world)
    if start < 0:
        raise ValueError(f"step {start} is impossible; an epoch starts at step 0")
    order = torch.from_numpy(generator("order", seed, epoch).permutation(count))
    return [
        (step, order[step * batch_size : (step + 1) * batch_size]) for step in range(start, total)
    ]


def ordered(count: int, batch_size: int, *, world: int = 1) -> list[Tensor]:
    """Indexes of the global batches that hold every sample once, in order.

    >>> [len(batch) for batch in ordered(10, 4)]
    [4, 4, 2]
    """
    steps(count, batch_size)
    _check_world(batch_size, world)
    batches = [
        torch.arange(start, min(start + batch_size, count)) for start in range(0, count, batch_size)
    ]
    # with less than one sample per process in the last batch, some processes would have a batch
    # less than others, and those that synchronise at every batch would wait for ever
    if len(batches) > 1 and len(batches[-1]) < world:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


def _check_world(batch_size: int, world: int) -> None:
    if batch_size < world:
        raise ValueError(
            f"batch size {batch_size} is too small for {world} processes; give {world} or more"
        )
