"""Scores and loss of a network on a split."""

import math
from collections.abc import Callable

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Dataset, Split
from ..layers import in_mode, in_order
from ..task import Classification, Task
from .devices import make_fabric, sum_over_processes
from .processes import share_buffers

__all__ = ["evaluate"]


def evaluate(
    model: nn.Module,
    split: Split | Dataset,
    *,
    batch_size: int = 500,
    fabric: Fabric | None = None,
    after_batch: Callable[[int], None] | None = None,
    task: Task | None = None,
) -> dict[str, float]:
    """Top-1 and top-5 accuracy as fractions, mean cross-entropy, and the number of images.

    Of a dataset, the test split is used, and its task.
    With fewer than five classes, top-5 is over all of them. ``after_batch`` is called with the
    number of batches done. Several processes share the images, and all get the same result. With a
    user's own task (``data.task``) it is ``score`` and the mean of the objective.

    >>> from transformable.data import from_tensors
    >>> images = torch.ones(4, 1, 2, 2), torch.tensor([0, 0, 0, 1])
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> _ = net[1].weight.data.zero_(), net[1].bias.data.copy_(torch.tensor([9.0, 0.0]))
    >>> evaluate(net, from_tensors(images, images, validation=0))["accuracy"]
    0.75
    """
    if isinstance(split, Dataset):
        task, split = task or split.task, split.test
    fabric, task = fabric or make_fabric(), task or Classification()
    model.to(fabric.device)
    exact = torch.float32 if fabric.device.type == "mps" else torch.float64
    sums = torch.zeros(2 + len(task.scores), dtype=exact, device=fabric.device)
    with torch.no_grad(), in_mode(model, training=False):
        share_buffers(fabric, model)
        batches = split.ordered(batch_size, rank=fabric.global_rank, world=fabric.world_size)
        for done, (x, y) in enumerate(batches, start=1):
            if len(x):  # there may be fewer images than processes
                (x, y) = fabric.to_device((x, y))
                with fabric.autocast():
                    found = _sums(task, model, x, y)
                sums += torch.cat([found, found.new_tensor([len(x)])]).to(sums)
            if after_batch is not None:
                after_batch(done)
    (loss, *scores, n) = sum_over_processes(fabric, sums).tolist()
    if n == 0:
        raise ValueError("there are no images to evaluate on")
    means = {name: value / n for name, value in zip(task.scores, scores, strict=True)}
    if math.isnan(means[task.scores[0]]):
        raise ValueError(f"the {task.scores[0]} of {int(n)} images is not a number")
    return {**means, "loss": loss / n, "n": int(n)}


def _sums(task: Task, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    try:
        return task.sums(model, x, y)
    except RuntimeError:
        # of a network that needs images in plain memory order; datasets have them in another
        plain = in_order(x, torch.contiguous_format)
        if plain.stride() == x.stride():
            raise
        return task.sums(model, plain, y)
