"""Checks before any training: the network fits the images and the task of the dataset."""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Dataset, Info
from ..layers import in_mode, memory_format_for
from ..task import Classification, Task
from ..tracing.network_graph import check_not_wrapped
from ..user_code import first_line

__all__ = [
    "check_model",
    "check_outputs",
    "check_settings",
    "check_task",
    "check_teacher",
    "check_weights",
    "in_order_for",
    "trainable",
    "try_out",
]

SIGNALS = (
    "; give signals (N, C, L) as (N, C, 1, L), by x.unsqueeze(2), and a network whose forward "
    "begins with x = x.squeeze(2)"
)
TRIED = 8  # images that an objective and a score are tried on


def check_model(model: Any) -> None:
    """Raise a ValueError unless this is a network."""
    if isinstance(model, type):
        raise ValueError(
            f"the model is the class {model.__name__}; give a network: {model.__name__}()"
        )
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is {type(model).__name__}; give a torch.nn.Module")
    check_not_wrapped(model)


def check_settings(name: str, given: Any, kind: type) -> None:
    """Raise a ValueError unless the settings are of this kind, or None, which stands for the
    default."""
    if given is not None and not isinstance(given, kind):
        raise ValueError(
            f"{name} is {type(given).__name__}; give tas.{kind.__name__}(epochs=...), or leave it "
            "out"
        )


def check_task(model: nn.Module, dataset: Dataset) -> None:
    """Raise a ValueError unless the network's outputs fit the task, and a user's objective and
    score work with them."""
    check_outputs(model, dataset.info, dataset.task)
    try_out(model, dataset)


def try_out(model: nn.Module, dataset: Dataset) -> None:
    """Raise a ValueError if a user's objective or score fails on the first images."""

    def first_images() -> tuple[Tensor, Tensor]:
        device = next(model.parameters(), torch.empty(0)).device
        x, y = next(dataset.train.ordered(min(TRIED, len(dataset.train))))
        return x.to(device), y.to(device)

    with in_mode(model, training=False):
        dataset.task.try_out(model, first_images)


def in_order_for(dataset: Dataset, *networks: nn.Module) -> Dataset:
    """The dataset, with batches in the order in memory that all of these networks can take."""
    formats = []
    for network in networks:
        device = next(network.parameters(), torch.empty(0)).device
        images = torch.zeros(2, *dataset.info.input_shape, device=device)
        tried = dataset.train.arrange(copy.deepcopy(network))
        formats.append(memory_format_for(tried, images))
    plain = torch.contiguous_format
    return dataset.in_memory_format(plain) if plain in formats else dataset


def check_outputs(model: nn.Module, info: Info, task: Task | None = None) -> None:
    """Raise a ValueError unless the output for one image is one logit per class, or what the task
    has instead; one forward pass."""
    check_weights(model)
    like = next(model.parameters(), torch.empty(0))
    if like.dtype != torch.float32:
        kind = str(like.dtype).removeprefix("torch.")
        raise ValueError(
            f"the model is in {kind}, and images are in float32: give model.float(), and precision "
            "bf16-mixed to compute in bfloat16"
        )
    try:
        with torch.no_grad(), in_mode(model, training=False):
            output = model(torch.zeros(1, *info.input_shape, device=like.device))
    except Exception as error:
        size = "x".join(map(str, info.input_shape))
        signals = any(isinstance(module, nn.Conv1d) for module in model.modules())
        raise ValueError(
            f"the model cannot take {info.name}'s images of {size}: {first_line(error)}"
            + SIGNALS * signals
        ) from error
    (task or Classification()).check_output(output, info.name, info.num_classes)


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters that are not frozen; a ValueError if there are none.

    >>> trainable(nn.Linear(2, 1).requires_grad_(False).parameters())
    Traceback (most recent call last):
    ValueError: the model has no parameters to train; call model.requires_grad_(True)
    """
    parameters = [*parameters]
    found = [parameter for parameter in parameters if parameter.requires_grad]
    if not found:
        frozen = "; call model.requires_grad_(True)" if parameters else ""
        raise ValueError(f"the model has no parameters to train{frozen}")
    return found


def check_weights(model: nn.Module) -> None:
    """Raise a ValueError if a weight is not a number.

    >>> broken = nn.Linear(2, 1)
    >>> _ = nn.init.constant_(broken.bias, float("nan"))
    >>> check_weights(broken)
    Traceback (most recent call last):
    ValueError: the network has NaN among its weights, in 'bias'; give it other weights
    """
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and tensor.isnan().any():
            raise ValueError(
                f"the network has NaN among its weights, in {name!r}; give it other weights"
            )


def check_teacher(teacher: nn.Module, info: Info, task: Task | None = None) -> None:
    """Raise a ValueError if the teacher is for other images or classes."""
    try:
        check_outputs(teacher, info, task)
    except ValueError as error:
        raise ValueError(f"the teacher does not fit: {error}") from None
