"""Change the channels of a layer: fewer, more, or the same ones in another order."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from .layers import initialise

__all__ = ["GROUPED", "MATRICES", "channel_axes", "filters_of", "resize"]

MATRICES = ("conv", "transposed conv", "linear")
"""The kinds of layers whose outputs each read all inputs."""

GROUPED = ("depthwise conv", "grouped conv")
"""The kinds of layers whose outputs each read the inputs of one group."""


def resize(module: Any, kind: str, outs: list[int], ins: list[int]) -> None:
    """Give a layer these output and input channels of its own, in this order; -1 is a new one.

    >>> norm = nn.BatchNorm2d(3)
    >>> _ = norm.weight.data.copy_(torch.tensor([1.0, 2.0, 3.0]))
    >>> resize(norm, "norm", [2, 0], [2, 0])
    >>> norm.num_features, norm.weight.tolist()
    (2, [3.0, 1.0])
    """
    axes = {
        name: [
            (axis, each) for axis, each in zip(pair, (outs, ins), strict=True) if axis is not None
        ]
        for name, pair in channel_axes(module, kind).items()
    }
    if kind == "norm":
        size = _norm_size(module)
        for part in module.modules():
            _set_norm_size(part, size, len(outs))
    elif kind == "linear":
        module.out_features, module.in_features = len(outs), len(ins)
    else:
        if kind in GROUPED:
            module.groups = module.groups * len(ins) // module.in_channels
        module.out_channels, module.in_channels = len(outs), len(ins)
    old = dict(_tensors(module))
    for name, tensor in old.items():
        value = _pick(tensor, axes[name])
        if isinstance(tensor, nn.Parameter):
            value = nn.Parameter(value, tensor.requires_grad)
        _set_tensor(module, name, value)
    if -1 in outs or -1 in ins:
        initialise(module)
        with torch.no_grad():
            for name, tensor in _tensors(module):
                _copy(tensor, old[name], axes[name])


def channel_axes(module: Any, kind: str) -> dict[str, tuple[int | None, int | None]]:
    """For each parameter and buffer of a layer, the axes of its output and its input channels.

    >>> channel_axes(nn.Conv2d(2, 4, 3), "conv")
    {'weight': (0, 1), 'bias': (0, None)}
    """
    if kind == "norm":
        # a number for each channel, whatever axes of size 1 it is stored with
        size = _norm_size(module)
        return {
            name: (tensor.shape.index(size) if tensor.numel() == size > 1 else None, None)
            for name, tensor in _tensors(module)
        }
    inputs = module.in_features if kind == "linear" else module.in_channels
    return {name: _axes(tensor, kind, inputs) for name, tensor in _tensors(module)}


def filters_of(module: Any, kind: str) -> Tensor:
    """The weights of a layer, those of its outputs one after the other."""
    weight: Tensor = module.weight.detach()
    return weight.transpose(0, 1) if kind == "transposed conv" else weight


def _axes(tensor: Tensor, kind: str, inputs: int) -> tuple[int | None, int | None]:
    if tensor.ndim < 2:
        return (0 if tensor.ndim else None), None
    if kind == "transposed conv":
        return 1, 0
    # a factor for each filter may be stored with axes of size 1
    return 0, 1 if kind not in GROUPED and tensor.shape[1] == inputs else None


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def _norm_size(module: nn.Module) -> int:
    return max((tensor.numel() for _, tensor in _tensors(module)), default=1)


def _set_norm_size(module: nn.Module, old: int, new: int) -> None:
    if isinstance(groups := getattr(module, "num_groups", None), int):
        module.num_groups = groups * new // old  # type: ignore[assignment]
    # num_features, num_channels, num_parameters or however it is called
    for name, value in list(vars(module).items()):
        if type(value) is int and value == old and name != "num_groups":
            setattr(module, name, new)


Axes = list[tuple[int, list[int]]]
"""Along which axes a tensor changes, each with the old index of each new channel."""


def _pick(tensor: Tensor, axes: Axes) -> Tensor:
    """These channels of a tensor; a new one, which not every module can initialise, starts as a
    copy of an old one."""
    value = tensor.detach()
    for axis, channels in axes:
        size = value.shape[axis]
        old = [n if n >= 0 else i % size for i, n in enumerate(channels)]
        value = value.index_select(axis, torch.tensor(old, device=value.device))
    return value.clone() if not axes else value


def _set_tensor(module: nn.Module, name: str, value: Tensor) -> None:
    owner, _, own_name = name.rpartition(".")
    setattr(module.get_submodule(owner), own_name, value)


def _copy(new: Tensor, old: Tensor, axes: Axes) -> None:
    """Copy the channels that are not new."""
    if not axes:
        new.copy_(old)
        return
    (axis, channels), *others = axes
    pairs = torch.tensor([(i, n) for i, n in enumerate(channels) if n >= 0], device=old.device)
    part = new.index_select(axis, pairs[:, 0])
    _copy(part, old.index_select(axis, pairs[:, 1]), others)
    new.index_copy_(axis, pairs[:, 0], part)
