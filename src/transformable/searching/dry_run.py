"""What a search consists of, for an estimate of its time and memory."""

import copy
import itertools
from collections.abc import Sequence

import torch
from lightning_fabric import Fabric
from torch import nn

from ..costing.budget import Budget
from ..data import Dataset
from ..settings import Searching
from ..slimming.fisher import fisher_importance
from ..tracing.space import Space
from ..training.calibration import sample_images
from ..training.dry_run import repeated
from ..training.probe import FEW, Phase
from ..training.train import check_steps
from .search import SAMPLE, images_of, make_supernet
from .search_step import SearchStep
from .sensitivity import changed, divergence, images_to_measure, rounds

__all__ = ["search_phases"]


def search_phases(
    model: nn.Module,
    dataset: Dataset,
    budgets: Sequence[Budget],
    settings: Searching,
    *,
    space: Space,
    fabric: Fabric,
) -> list[Phase]:
    """The kinds of step of a search, on copies of the network that are then dropped."""
    parts = images_of(dataset.train, settings, 0)
    size, at_once = settings.batch_size, settings.images_at_once
    steps = min(check_steps(part, size, fabric.world_size) for part in parts)
    sample = sample_images(dataset.train, FEW, 0)
    images = fabric.to_device(sample.images)
    labels = fabric.to_device(sample.labels)
    arrange = dataset.train.arrange
    teacher = arrange(copy.deepcopy(model)).to(fabric.device).eval().requires_grad_(False)
    net = arrange(make_supernet(model, space, settings, 0)).to(fabric.device).train()
    answers = teacher if settings.targets == "teacher" else None
    search_step = SearchStep(
        net, budgets[0], settings, steps, fabric, task=dataset.task, teacher=answers
    )
    search_step.accumulate = 1  # the steps that are tried are parts already

    def search(count: int) -> None:
        batch = repeated(images, count), repeated(labels, count)
        search_step(search_step.hold, 0, *[batch] * len(parts))

    def sort(count: int) -> None:
        fisher_importance(
            model.to(fabric.device), space, [repeated(images, count)], task=dataset.task
        )

    with torch.no_grad(), fabric.autocast():
        outputs = teacher(images).float()
    # one size of each shape is new: torch prepares its operations anew for every size
    shapes = itertools.cycle(
        changed(space, space.full, name, sizes[0]) for name, sizes in space.candidates.items()
    )

    def measure(count: int) -> None:
        x, wanted = repeated(images, count), repeated(outputs, count)
        divergence(net.extract(next(shapes)), x, wanted, fabric, dataset.task)

    phases = [
        Phase(
            name="searching",
            step=search,
            images=settings.epochs * steps * size,
            at_once=at_once,
            epochs=settings.epochs * len(parts),
        )
    ]
    if settings.start == "sensitivity":
        count = sum(len(sizes) - 1 for sizes in space.candidates.values()) + 1
        measured = 0.0
        cost = full = budgets[0].cost(space, space.full)
        for budget in budgets:
            # the networks shrink from one cost to the other while they are measured
            mean = (min(cost, full) + min(budget.value, full)) / (2 * full)
            measured += mean * rounds(budget, cost) * count
            cost = round(budget.value)
        of_each = min(images_to_measure(space, len(dataset.train)), len(dataset.train))
        # all networks are measured by the same images, which are read once
        phases.append(
            Phase(
                name="measuring",
                step=measure,
                images=measured * of_each,
                at_once=of_each,
                decoded=False,
            )
        )
        if settings.sort:
            chunk = min(SAMPLE // 8, at_once)
            sorted_by = min(SAMPLE, len(dataset.train))
            phases.append(Phase(name="sorting", step=sort, images=sorted_by, at_once=chunk))
    return phases
