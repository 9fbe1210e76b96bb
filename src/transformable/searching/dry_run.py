"""Estimate time and memory of a search from a few of its steps."""

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
from ..training.train import check_steps, preserve_random_state
from .search import images_of, make_supernet
from .search_step import SearchStep

__all__ = ["Estimate", "estimate_search"]

STEPS = 3


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a search will take."""

    steps: int
    """Steps of the whole search."""
    seconds_per_step: float
    """Time of a step, which updates the weights and the sizes."""
    memory: int
    """Bytes of weights, gradients, momenta, and the activations of one batch."""


def estimate_search(
    model: nn.Module,
    dataset: Dataset,
    budget: Budget,
    settings: Searching,
    *,
    space: Space,
    fabric: Fabric,
) -> Estimate:
    """Do some steps of a search on a network that is then dropped."""
    parts = images_of(dataset.train, settings, 0)
    size = settings.batch_size
    steps = min(check_steps(part, size, fabric.world_size) for part in parts)
    net = make_supernet(model, space, settings, 0).to(fabric.device).train()
    search_step = SearchStep(net, budget, settings, steps, fabric, task=dataset.task)
    batches = fabric.to_device([next(part.shuffled(size, seed=0, epoch=0)) for part in parts])
    times = []
    # what autograd saves, by address; kept alive, because a freed address would be used again
    saved: dict[int, torch.UntypedStorage] = {}

    def save(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved.setdefault(storage.data_ptr(), storage)
        return tensor

    with preserve_random_state(fabric):
        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            search_step(search_step.hold, 0, *batches)
        for step in range(STEPS):
            start = time.perf_counter()
            search_step(search_step.hold + step, 0, *batches)
            times.append(time.perf_counter() - start)
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    activations = sum(storage.nbytes() for storage in saved.values())
    # what two steps in turn save is not in memory at the same time
    activations //= len(parts)
    return Estimate(
        steps=steps * settings.epochs,
        seconds_per_step=statistics.median(times),
        memory=3 * weights + activations,
    )
