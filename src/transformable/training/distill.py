"""Transfer from the unpruned network to the small one: its weights, its outputs as targets."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Data, Dataset, as_dataset
from ..own_task import OwnObjective, OwnScore, own_task
from ..settings import Distilling, Transfer
from ..shape import Shape
from ..slimming.slim import slim
from ..slimming.sort_channels import sort_channels
from ..task import Objective, Task
from ..tracing.space import Space
from .checks import check_model, check_settings, check_teacher, in_order_for, try_out
from .room_to_learn import room_to_learn
from .session import Session
from .step_size import with_learning_rate
from .train import Trained, minimise

__all__ = ["distill", "distillation", "student_network", "with_answers", "with_teacher"]

TRUST, TRUST_WITH_ROOM = 0.9, 0.5
"""Weights of the distance to a teacher's outputs: of one that knows its training images by heart,
and of one that gets many of them wrong (docs/results.md)."""


def distill(
    student: nn.Module,
    dataset: Data,
    settings: Distilling | None = None,
    session: Session | None = None,
    *,
    teacher: nn.Module | None = None,
    objective: OwnObjective | None = None,
    score: OwnScore | None = None,
    after_epoch: Callable[[nn.Module], None] | None = None,
    epochs_before: float = 0.0,
) -> Trained:
    """Train ``student`` in place, as ``train`` does, with a teacher's outputs as targets.

    ``slim`` and ``student_network`` make students; the teacher is not changed. Without ``kd`` in
    ``settings.transfer`` only the labels are used, and no teacher is needed. ``after_epoch`` may
    change the network after the steps of each epoch. The learning rate continues where a search of
    the same schedule, which took ``epochs_before``, has stopped.

    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> teacher = models.build("resnet20", num_classes=2)
    >>> space = Space.trace(teacher, (3, 8, 8))
    >>> student = slim(teacher, space, space.smallest)
    >>> dataset = from_tensors(images, images, validation=0)
    >>> settings = Distilling(epochs=1, batch_size=10)
    >>> distill(student, dataset, settings, teacher=teacher).n
    40
    """
    check_model(student)
    check_settings("settings", settings, Distilling)
    settings = settings or Distilling()
    inherits = "init" in settings.transfer
    session = session or Session()
    dataset = as_dataset(dataset, own_task(objective, score), seed=session.seed)
    dataset = in_order_for(dataset, *[net for net in (student, teacher) if net is not None])
    try_out(student, dataset)
    if inherits:
        settings = with_teacher(settings, teacher, dataset, session.fabric)
    settings = with_learning_rate(settings, student if inherits else None)
    if "kd" in settings.transfer:
        if teacher is None:
            raise ValueError(f"transfer {settings.transfer!r} needs a teacher; or use none")
        minimised = distillation(teacher, dataset, settings, session.fabric)
    else:
        minimised = dataset.task.objective(settings.label_smoothing)
    return minimise(
        minimised,
        student,
        dataset,
        settings,
        session,
        after_epoch=after_epoch,
        epochs_before=epochs_before,
    )


def with_teacher(
    settings: Distilling, teacher: nn.Module | None, dataset: Dataset, fabric: Fabric
) -> Distilling:
    """The same settings; if they leave the learning rate or the weight of distillation open, with
    those for a small network that keeps weights of this teacher.

    A teacher that still gets training images wrong is trusted less, and left in larger steps.
    """
    if teacher is None or (settings.lr and settings.kd_lambda is not None):
        return settings
    check_teacher(teacher, dataset.info, dataset.task)
    room = room_to_learn(teacher, dataset, fabric)
    settings = with_learning_rate(settings, teacher, room)
    if settings.kd_lambda is not None or settings.kd == "paper":
        return settings
    return replace(settings, kd_lambda=TRUST - room * (TRUST - TRUST_WITH_ROOM))


def student_network(
    model: nn.Module, space: Space, shape: Shape, *, transfer: Transfer, sort: bool, seed: int
) -> nn.Module:
    """The small network of a shape before its training, with the model's weights or fresh ones.

    Weights are those of the leading channels, or if sorted, of the most important ones; channels
    that the shape names are kept as they are.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if "init" not in transfer:
            return slim(model, space, shape, weights="fresh")
        if sort and not shape.channels:
            model = sort_channels(model, space)
        return slim(model, space, shape)


def distillation(
    teacher: nn.Module, dataset: Dataset, settings: Distilling, fabric: Fabric
) -> Objective:
    """The objective of the task, mixed with the distance to the teacher's outputs."""
    check_teacher(teacher, dataset.info, dataset.task)
    teacher = copy.deepcopy(teacher).to(fabric.device).eval()
    dataset.train.arrange(teacher)
    return with_answers(
        dataset.task.objective(settings.label_smoothing),
        teacher,
        dataset.task,
        fabric,
        kd=settings.kd,
        weight=TRUST if settings.kd_lambda is None else settings.kd_lambda,
        temperature=settings.temperature,
    )


def with_answers(
    of_labels: Objective, teacher: nn.Module, task: Task, fabric: Fabric, **mixture: Any
) -> Objective:
    """An objective, mixed with the distance to a teacher's outputs for the same images.

    ``mixture`` is that of the ``distillation_loss`` of the task.
    """

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = of_labels(model, x, y)
        with torch.no_grad(), fabric.autocast():
            answers = teacher(outcome["inputs"])
        outputs = outcome["outputs"].float()
        loss = task.distillation_loss(outcome["loss"], outputs, answers.float(), (x, y), **mixture)
        return {**outcome, "loss": loss}

    return objective
