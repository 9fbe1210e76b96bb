"""Checks before any training: the network fits the images and the classes of the dataset."""

import torch
from torch import nn

from ..data import Info
from ..user_code import first_line

__all__ = ["check_outputs", "check_teacher", "check_weights"]


def check_outputs(model: nn.Module, info: Info) -> None:
    """Raise a ValueError unless one image gives one logit per class; one forward pass."""
    check_weights(model)
    like = next(model.parameters(), torch.empty(0))
    if like.dtype != torch.float32:
        kind = str(like.dtype).removeprefix("torch.")
        raise ValueError(
            f"the model is in {kind}, and images are in float32: give model.float(), and precision "
            "bf16-mixed to compute in bfloat16"
        )
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            output = model(torch.zeros(1, *info.input_shape, device=like.device))
    except Exception as error:
        size = "x".join(map(str, info.input_shape))
        raise ValueError(
            f"the model cannot take {info.name}'s images of {size}: {first_line(error)}"
        ) from error
    finally:
        model.train(was_training)
    if not isinstance(output, torch.Tensor):
        raise ValueError(f"the model gives {type(output).__name__} instead of a tensor of logits")
    if output.ndim != 2 or len(output) != 1:
        raise ValueError(
            f"the model gives an output of {tuple(output.shape)} for one image of {info.name}, "
            f"instead of (1, {info.num_classes})"
        )
    if output.shape[1] != info.num_classes:
        raise ValueError(
            f"the model gives {output.shape[1]} outputs, "
            f"but {info.name} has {info.num_classes} classes"
        )


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


def check_teacher(teacher: nn.Module, info: Info) -> None:
    """Raise a ValueError if the teacher is for other images or classes."""
    try:
        check_outputs(teacher, info)
    except ValueError as error:
        raise ValueError(f"the teacher does not fit: {error}") from None
