"""A few steps of a search, to say what the whole of it would take."""

import statistics
import time
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..data import Dataset
from ..settings import Searching
from ..tracing.space import Space
from ..training.train import check_steps, own_randomness
from .search import halves, make_supernet
from .search_step import Alternate

__all__ = ["Rehearsal", "rehearse"]

STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What was seen in a few steps."""

    steps: int
    """Of the whole search."""
    seconds_per_step: float
    """Of a step of the weights and one of the sizes."""
    memory: int
    """Bytes of weights, gradients, momenta and of the activations of one batch."""


def rehearse(
    model: nn.Module,
    dataset: Dataset,
    budget: Budget,
    settings: Searching,
    *,
    space: Space,
    fabric: Fabric,
) -> Rehearsal:
    """Do some steps of a search and forget them."""
    weights, architecture = halves(dataset.train, 0)
    size = settings.batch_size
    steps = min(check_steps(half, size, fabric.world_size) for half in (weights, architecture))
    net = make_supernet(model, space, settings, 0).to(fabric.device).train()
    alternate = Alternate(net, budget, settings, steps, fabric)
    batches = [next(half.shuffled(size, seed=0, epoch=0)) for half in (weights, architecture)]
    ours, theirs = fabric.to_device(batches)
    times = []
    with own_randomness(fabric):
        kept = Kept()
        with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor):
            alternate(alternate.hold, 0, ours, theirs)
        for step in range(STEPS):
            start = time.perf_counter()
            alternate(alternate.hold + step, 0, ours, theirs)
            times.append(time.perf_counter() - start)
    learnt = sum(p.numel() * p.element_size() for p in net.parameters())
    # a batch of the weights and one of the sizes pass one after the other
    return Rehearsal(
        steps=steps * settings.epochs,
        seconds_per_step=statistics.median(times),
        memory=3 * learnt + kept.bytes // 2,
    )


class Kept:
    """Counts the memory that is kept for the backward pass, every storage once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._seen: set[int] = set()
        self._alive: list[Tensor] = []

    def pack(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self._alive.append(tensor)  # or its address would be given to another one
            self.bytes += storage.nbytes()
        return tensor
