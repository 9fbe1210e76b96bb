"""The operations that are known: what each does to the channels of a tensor.

Each function returns the layout of the node's output, or None if that has no channels.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.utils.parametrize import is_parametrized

from ..layers import PaddedAdd
from .adds import read_add, read_glu, read_mul, read_padded_add
from .axes import (
    argument,
    read_channel_shuffle,
    read_index,
    read_permute,
    read_reduction,
    read_reshape,
    read_softmax,
    read_split,
    read_stack,
)
from .layer_operations import read_conv, read_custom, read_linear, read_norm, read_prelu
from .layouts import Concat, Placed
from .probing import hooks_only_observe
from .reader import NetworkReader

__all__ = ["read_operation"]

Operation = Callable[[NetworkReader, fx.Node], int | None]


def read_operation(reader: NetworkReader, node: fx.Node) -> int | None:
    """The layout of the output of a node that calls a module, a method or a function."""
    if node.op == "call_module":
        module, name = reader.module(node), reader.describe(node)
        if str(node.target) in reader.leaf:
            return reader.unknown(node, f"{name} is kept whole")
        if any(parameter in reader.shared for parameter in module.parameters()):
            return reader.unknown(node, f"the weights of {name} are used more than once")
        if is_parametrized(module):
            return reader.unknown(node, f"the weights of {name} are computed from others")
        if _has_hooks_that_act(reader, node):
            what = "input or its weights" if module._forward_pre_hooks else "output"
            return reader.unknown(node, f"{name} has a hook that may change its {what}")
        operation = MODULES.get(type(module), read_custom)
    elif not reader.shape(node) and not any(map(reader.shape, node.all_input_nodes)):
        if any(source in reader.pieces for source in node.all_input_nodes):
            reader.unknown(node)  # several tensors at once
        return None  # arithmetic with numbers
    elif node.op == "call_method":
        operation = METHODS.get(str(node.target), read_custom)
    else:
        operation = FUNCTIONS.get(node.target, read_custom)
    moved = any(reader.axis_of(source) != 1 for source in reader.tensors(node))
    if moved and operation not in ON_ANY_AXIS:
        operation = read_custom
    return operation(reader, node)


def _has_hooks_that_act(reader: NetworkReader, node: fx.Node) -> bool:
    """Whether a module has hooks that do more than observe its inputs and outputs."""
    module, tensors = reader.module(node), reader.tensors(node)
    if not module._forward_pre_hooks and not module._forward_hooks:
        return False
    return len(tensors) != 1 or not reader.probe(node, hooks_only_observe, reader.shape(tensors[0]))


def read_channelwise(reader: NetworkReader, node: fx.Node) -> int | None:
    """An operation on each channel separately: the output has the channels of the input."""
    [source, *others] = reader.tensors(node)
    reader.axis[node] = reader.axis_of(source)
    return reader.unknown(node) if others else reader.layout.get(source)


def read_spatial(reader: NetworkReader, node: fx.Node) -> int | None:
    """The same, for an operation that reads the axes after the channels as pixels."""
    return read_channelwise(reader, node)


def read_sequential(reader: NetworkReader, node: fx.Node) -> int | None:
    """An empty one is an identity; any other has been traced into."""
    return reader.unknown(node) if len(reader.module(node)) else read_channelwise(reader, node)


def read_cat(reader: NetworkReader, node: fx.Node) -> int | None:
    tensors = argument(node, 0, "tensors")
    nodes = list(tensors) if isinstance(tensors, (list, tuple)) else []
    axis = argument(node, 1, "dim", 0) % len(reader.shape(node))
    parts = [reader.channels(n, axis) for n in nodes]
    known = tuple(index for index in parts if index is not None)
    if axis == 0 or not nodes or len(known) < len(nodes):
        return reader.unknown(node)
    reader.axis[node] = axis
    return reader.new(Concat(sum(map(reader.size, known)), known))


def read_pad(reader: NetworkReader, node: fx.Node) -> int | None:
    [source, *others] = reader.tensors(node)
    amounts = argument(node, 1, "pad")
    inputs = reader.layout.get(source)
    axes = len(reader.shape(source))
    if inputs is None or others or not isinstance(amounts, (list, tuple)):
        return reader.unknown(node)
    # (before, after) of each axis, the last axis first
    pairs = [*zip(amounts[::2], amounts[1::2], strict=True)] + [(0, 0)] * axes
    before, after = pairs[axes - 2]
    if before == after == 0:
        return inputs
    zeros = argument(node, 2, "mode", "constant") == "constant"
    zeros &= argument(node, 3, "value", 0) in (0, None)
    if not zeros or min(before, after) < 0:
        return reader.unknown(node)
    size = reader.size(inputs)
    positions = tuple(range(before, before + size))
    return reader.new(Placed(before + size + after, inputs, positions, zeros=True))


def read_scalar(reader: NetworkReader, node: fx.Node) -> int | None:
    """A quotient with a number on the right."""
    [source, *others] = reader.tensors(node)
    if others or node.args[0] is not source:
        return reader.unknown(node)
    reader.axis[node] = reader.axis_of(source)
    return reader.layout.get(source)


def read_query(reader: NetworkReader, node: fx.Node) -> int | None:
    """An attribute of a tensor that a narrower one has as well: its size, its device."""
    return reader.unknown(node) if reader.shape(node) else None


def _sizes(*names: str) -> list[str]:
    """Names for one to three axes of pixels.

    >>> _sizes("MaxPool")
    ['MaxPool1d', 'MaxPool2d', 'MaxPool3d']
    """
    return [f"{name}{axes}d" for name in names for axes in (1, 2, 3)]


_SAME_MODULES = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU,
    nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus,
    nn.Softsign, nn.LogSigmoid, nn.Dropout, nn.AlphaDropout,
)  # fmt: skip

_SPATIAL_MODULES = [
    getattr(nn, name)
    for name in (
        *_sizes("MaxPool", "AvgPool", "LPPool", "AdaptiveAvgPool", "AdaptiveMaxPool", "Dropout"),
        *_sizes("ZeroPad", "ConstantPad", "ReflectionPad", "ReplicationPad", "CircularPad"),
        *("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"),
    )
]

_CONVS = [getattr(nn, name) for name in _sizes("Conv", "ConvTranspose")]

_NORMS = [nn.SyncBatchNorm, *(getattr(nn, name) for name in _sizes("BatchNorm", "InstanceNorm"))]

_SAME_NAMES = (
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "selu", "selu_", "celu",
    "gelu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "hardtanh_", "sigmoid",
    "sigmoid_", "tanh", "tanh_", "softplus", "softsign", "logsigmoid", "dropout",
    "alpha_dropout", "clamp", "clamp_", "abs", "neg", "exp", "sqrt", "square",
    "contiguous", "clone", "detach", "to", "float", "half", "bfloat16",
)  # fmt: skip

_SPATIAL_NAMES = (
    *_sizes("max_pool", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool", "dropout"),
    "interpolate",
)

MODULES: dict[type, Operation] = {
    **dict.fromkeys(_SAME_MODULES, read_channelwise),
    **dict.fromkeys(_SPATIAL_MODULES, read_spatial),
    nn.Sequential: read_sequential,
    **dict.fromkeys(_CONVS, read_conv),
    nn.Linear: read_linear,
    **dict.fromkeys(_NORMS, read_norm),
    nn.PReLU: read_prelu,
    nn.Flatten: read_reshape,
    nn.Softmax: read_softmax,
    nn.GLU: read_glu,
    nn.ChannelShuffle: read_channel_shuffle,
    PaddedAdd: read_padded_add,
}

METHODS: dict[str, Operation] = {
    **dict.fromkeys(_SAME_NAMES, read_channelwise),
    **dict.fromkeys(("add", "add_"), read_add),
    **dict.fromkeys(("mul", "mul_", "sub"), read_mul),
    "div": read_scalar,
    **dict.fromkeys(("mean", "sum", "amax"), read_reduction),
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "unsqueeze"), read_reshape),
    "unflatten": read_reshape,
    **dict.fromkeys(("permute", "transpose", "swapaxes"), read_permute),
    **dict.fromkeys(("split", "chunk", "tensor_split"), read_split),
    **dict.fromkeys(("size", "dim"), read_query),
    "softmax": read_softmax,
    **dict.fromkeys(("maximum", "minimum", "expand_as"), read_mul),
}


def _functions(names: tuple[str, ...]) -> list[Any]:
    return [
        getattr(module, name) for module in (torch, F) for name in names if hasattr(module, name)
    ]


FUNCTIONS: dict[Any, Operation] = {
    **dict.fromkeys(_functions(_SAME_NAMES), read_channelwise),
    **dict.fromkeys(_functions(_SPATIAL_NAMES), read_spatial),
    **dict.fromkeys((operator.add, operator.iadd, torch.add), read_add),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul), read_mul),
    **dict.fromkeys((operator.sub, operator.isub, torch.sub), read_mul),
    **dict.fromkeys((torch.maximum, torch.minimum), read_mul),
    F.glu: read_glu,
    **dict.fromkeys((operator.truediv, operator.itruediv, torch.div), read_scalar),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), read_cat),
    **dict.fromkeys((torch.mean, torch.sum, torch.amax), read_reduction),
    **dict.fromkeys((torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze), read_reshape),
    torch.unflatten: read_reshape,
    **dict.fromkeys((torch.permute, torch.transpose, torch.swapaxes), read_permute),
    **dict.fromkeys((torch.split, torch.chunk, torch.tensor_split), read_split),
    **dict.fromkeys((torch.softmax, F.softmax), read_softmax),
    torch.stack: read_stack,
    F.pad: read_pad,
    operator.getitem: read_index,
    getattr: read_query,
}

ON_ANY_AXIS: set[Operation] = {
    *(read_channelwise, read_sequential, read_add, read_mul, read_scalar, read_reduction, read_cat),
    read_glu,
    *(read_reshape, read_permute, read_split, read_index, read_query, read_softmax, read_stack),
    *(read_conv, read_linear, read_norm, read_custom),
}
"""Those that do not assume that the second axis has the channels, or find out which one has."""
