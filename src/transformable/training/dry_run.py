"""What a training consists of, for an estimate of its time and memory."""

import copy
from dataclasses import replace

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Dataset
from ..layers import in_mode
from ..settings import Training
from ..task import Objective
from .calibration import sample_images
from .probe import FEW, Phase
from .train import check_steps, make_sgd

__all__ = ["forward_phase", "repeated", "training_phases"]


def training_phases(
    name: str,
    model: nn.Module,
    dataset: Dataset,
    settings: Training,
    fabric: Fabric,
    *,
    objective: Objective | None = None,
) -> list[Phase]:
    """The steps of a training and the tests in it, on a copy of the network."""
    objective = objective or dataset.task.objective(settings.label_smoothing)
    steps = check_steps(dataset.train, settings.batch_size, fabric.world_size)
    sample = sample_images(dataset.train, FEW, 0)
    images, labels = fabric.to_device(sample.images), fabric.to_device(sample.labels)
    model = dataset.train.arrange(copy.deepcopy(model)).to(fabric.device).train()
    optimizer = make_sgd(model.parameters(), settings)

    def step(count: int) -> None:
        optimizer.zero_grad()
        with fabric.autocast():
            loss = objective(model, repeated(images, count), repeated(labels, count))["loss"]
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    epochs, at_once = settings.epochs, settings.images_at_once
    validations = epochs if len(dataset.validation) else 0
    tested = validations * len(dataset.validation) + len(dataset.test)
    learnt = epochs * steps * settings.batch_size
    tests = forward_phase(f"{name}: tests", model, images, tested, at_once, fabric)
    return [
        Phase(name=name, step=step, images=learnt, at_once=at_once, epochs=epochs),
        replace(tests, epochs=validations + 1),
    ]


def forward_phase(
    name: str, model: nn.Module, images: Tensor, count: float, at_once: int, fabric: Fabric
) -> Phase:
    """Images that only go forward through a network."""

    @torch.no_grad()
    def step(count: int) -> None:
        with in_mode(model, training=False), fabric.autocast():
            model(repeated(images, count))

    return Phase(name=name, step=step, images=count, at_once=at_once)


def repeated(values: Tensor, count: int) -> Tensor:
    """So many images from a few; what is computed does not depend on what is in them."""
    return torch.cat([values] * -(-count // len(values)))[:count]
