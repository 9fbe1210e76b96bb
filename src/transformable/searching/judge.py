"""Derive a shape by comparing several probable ones on held-out images."""

from dataclasses import replace

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..seeds import generator
from ..shape import Shape
from ..supernet.supernet import SuperNet
from ..task import Task
from .derive import Derived, derive
from .sensitivity import divergence

__all__ = ["judge"]


def judge(
    net: SuperNet,
    teacher: nn.Module,
    most_probable: Derived,
    budget: Budget,
    images: Tensor,
    count: int,
    fabric: Fabric,
    seed: int,
    task: Task | None = None,
) -> Derived:
    """The best of the most probable shape and ``count`` - 1 others that are drawn inside the band.

    A shape is drawn as the most probable one after Gumbel noise is added to the logits. The best
    network, with the weights of the supernet and the batch statistics of the images, is the one
    whose outputs for the images are nearest to the teacher's.
    """
    images = fabric.to_device(images)
    with torch.no_grad(), fabric.autocast():
        answers = teacher(images).float()

    def score(derived: Derived) -> float:
        return float(divergence(net.extract(derived.shape), images, answers, fabric, task))

    logits = {name: p.detach().cpu().log() for name, p in net.probabilities().items()}
    random = generator("judged shapes", seed)
    drawn = {most_probable.shape: most_probable}
    for _ in range(count - 1):
        noisy = {
            name: row + torch.from_numpy(random.gumbel(size=len(row)))
            for name, row in logits.items()
        }
        found = derive({name: row.softmax(0) for name, row in noisy.items()}, net.space, budget)
        drawn.setdefault(found.shape, found)
    scores = {shape: score(derived) for shape, derived in drawn.items()}
    best = min(drawn, key=scores.__getitem__)
    if best == most_probable.shape:
        return most_probable
    own = _log_probability(logits, net, best)
    given_up = most_probable.log_probability + most_probable.given_up - own
    return replace(drawn[best], how="judged", log_probability=own, given_up=given_up)


def _log_probability(logits: dict[str, Tensor], net: SuperNet, shape: Shape) -> float:
    sizes = {**shape.widths, **shape.depths}
    return sum(
        float(row[net.space.candidates[name].index(sizes[name])]) for name, row in logits.items()
    )
