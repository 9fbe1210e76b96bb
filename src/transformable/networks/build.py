"""A network from what stands behind --model: a known name, or a function in somebody's file."""

import importlib.util
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import models
from ..data import Info

__all__ = ["build", "check_outputs", "network"]


def network(spec: str, info: Info) -> nn.Module:
    """The network for a dataset, tried once on an image of its size."""
    (channels, _, _) = info.input_shape
    model = build(spec, num_classes=info.num_classes, in_channels=channels)
    check_outputs(model, info.input_shape, info.num_classes, info.name)
    return model


def build(spec: str, *, num_classes: int, in_channels: int) -> nn.Module:
    """The network called ``spec``, or what ``path.py:factory`` returns.

    The factory is called with ``num_classes`` and ``in_channels`` where it takes them.
    """
    (path, colon, name) = spec.rpartition(":")
    if not colon and spec.endswith(".py"):
        raise ValueError(f"model {spec!r} needs the name of a function: {spec}:FUNCTION")
    if not colon:
        return models.build(spec, num_classes=num_classes, in_channels=in_channels)
    factory = _function(spec, Path(path), name)
    wanted = {"num_classes": num_classes, "in_channels": in_channels}
    try:
        model = factory(**_taken(factory, wanted))
    except (Exception, SystemExit) as error:
        raise ValueError(f"model {spec!r} failed: {_first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model {spec!r} gave {type(model).__name__}; it must return a torch.nn.Module"
        )
    return model


def check_outputs(
    model: nn.Module, input_shape: tuple[int, int, int], num_classes: int, data: str
) -> None:
    """One forward pass: refuse a network whose outputs are not the classes of the dataset."""
    was_training = model.training
    model.eval()
    size = "x".join(map(str, input_shape))
    try:
        with torch.no_grad():
            like = next(model.parameters(), torch.empty(0))
            output = model(torch.zeros(1, *input_shape, device=like.device))
    except Exception as error:
        raise ValueError(
            f"the model cannot take {data}'s images of {size}: {_first_line(error)}"
        ) from error
    finally:
        model.train(was_training)
    if not isinstance(output, torch.Tensor):
        raise ValueError(f"the model gives {type(output).__name__} instead of a tensor of logits")
    if output.ndim != 2 or len(output) != 1:
        raise ValueError(
            f"the model gives an output of {tuple(output.shape)} for one image of {data}, "
            f"instead of (1, {num_classes})"
        )
    if output.shape[1] != num_classes:
        raise ValueError(
            f"the model gives {output.shape[1]} outputs, but {data} has {num_classes} classes"
        )


def _function(spec: str, path: Path, name: str) -> Any:
    if path.suffix != ".py":
        raise ValueError(f"model {spec!r} must be the name of a network or path.py:FUNCTION")
    if not path.is_file():
        raise ValueError(f"model {spec!r}: file {path} is not there")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"model {spec!r}: {path} failed: {_first_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"model {spec!r}: {path} has no function {name!r}; it has {', '.join(known) or 'none'}"
        )
    return function


def _taken(function: Any, wanted: dict[str, int]) -> dict[str, int]:
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return wanted
    return {name: value for name, value in wanted.items() if name in parameters}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
