"""Checks before any training: the network fits the images and the classes of the dataset."""

import torch
from torch import nn

from ..data import Info
from ..user_code import first_line

__all__ = ["check_outputs", "check_teacher"]


def check_outputs(model: nn.Module, info: Info) -> None:
    """Raise a ValueError unless one image gives one logit per class; one forward pass."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            like = next(model.parameters(), torch.empty(0))
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


def check_teacher(teacher: nn.Module, info: Info) -> None:
    """Raise a ValueError if the teacher is for other images or classes."""
    try:
        check_outputs(teacher, info)
    except ValueError as error:
        raise ValueError(f"the teacher does not fit: {error}") from None
