"""The operations that are known: what each does to the channels of a tensor.

Each function returns the layout of the node's output, or None if that has no channels.
"""

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from ..layers import PaddedAdd
from .adds import read_add, read_mul, read_padded_add
from .layouts import Concat, FixedWidth, Placed, Repeated
from .probing import keeps_channels_apart, makes_channels_by_itself
from .reader import NetworkReader

__all__ = ["read_operation"]

Operation = Callable[[NetworkReader, fx.Node], int | None]


def read_operation(reader: NetworkReader, node: fx.Node) -> int | None:
    """The layout of the output of a node that calls a module, a method or a function."""
    if node.op == "call_module":
        module, name = reader.module(node), reader.describe(node)
        if any(parameter in reader.shared for parameter in module.parameters()):
            return reader.unknown(node, f"the weights of {name} are used more than once")
        if module._forward_pre_hooks:
            return reader.unknown(node, f"{name} has a hook that may make its weights")
        return MODULES.get(type(module), read_custom)(reader, node)
    if not reader.shape(node) and not any(map(reader.shape, node.all_input_nodes)):
        return None  # arithmetic with numbers
    if node.op == "call_method":
        return METHODS.get(str(node.target), NetworkReader.unknown)(reader, node)
    return FUNCTIONS.get(node.target, NetworkReader.unknown)(reader, node)


def read_channelwise(reader: NetworkReader, node: fx.Node) -> int | None:
    """An operation on each channel by itself: the output has the channels of the input."""
    [source, *others] = reader.tensors(node)
    return reader.unknown(node) if others else reader.layout.get(source)


def read_sequential(reader: NetworkReader, node: fx.Node) -> int | None:
    """An empty one is an identity; any other has been traced into."""
    return reader.unknown(node) if len(reader.module(node)) else read_channelwise(reader, node)


def read_conv(reader: NetworkReader, node: fx.Node) -> int | None:
    module: Any = reader.module(node)
    [source] = node.all_input_nodes
    inputs, axes = reader.layout.get(source), len(reader.shape(source))
    transposed = isinstance(module, _ConvTransposeNd)
    if inputs is None or axes != module.weight.ndim or (transposed and module.groups > 1):
        return reader.unknown(node)
    if transposed:
        return _free_layer(reader, node, "transposed conv", inputs)
    if module.groups == 1:
        return _free_layer(reader, node, "conv", inputs)
    return _read_grouped_conv(reader, node, inputs)


def _read_grouped_conv(reader: NetworkReader, node: fx.Node, inputs: int) -> int | None:
    """Its groups are kept or dropped as a whole, so the inputs of a group stay together."""
    module: Any = reader.module(node)
    group_inputs = module.in_channels // module.groups
    times, rest = divmod(module.out_channels, module.in_channels)
    kind = "depthwise conv" if group_inputs == 1 else "grouped conv"
    if rest:
        name = reader.describe(node)
        reason = f"{name} is a grouped convolution ({module.groups} groups) with fewer outputs"
        return reader.unknown(node, reason)
    if not _is_known(reader, node, kind):
        return reader.unknown(node)
    reason = f"{reader.describe(node)} has groups of {group_inputs} channels"
    reader.ties.keep_together(inputs, group_inputs, reason)
    outputs = inputs if times == 1 else reader.new(Repeated(module.out_channels, inputs, times))
    reader.add_layer(node, kind, inputs, outputs)
    return outputs


def _free_layer(reader: NetworkReader, node: fx.Node, kind: str, inputs: int) -> int | None:
    known = _is_known(reader, node, kind)
    return reader.add_free_layer(node, kind, inputs) if known else reader.unknown(node)


def _is_known(reader: NetworkReader, node: fx.Node, kind: str) -> bool:
    """Whether a layer is of one of torch's own classes, or acts like one if it is run."""
    module, [source] = reader.module(node), node.all_input_nodes
    known = type(module) in MODULES
    return known or makes_channels_by_itself(module, kind, reader.shape(source))


def read_linear(reader: NetworkReader, node: fx.Node) -> int | None:
    [source] = node.all_input_nodes
    inputs = reader.layout.get(source)
    if inputs is None or len(reader.shape(source)) != 2:
        return reader.unknown(node)
    return _free_layer(reader, node, "linear", inputs)


def read_norm(reader: NetworkReader, node: fx.Node) -> int | None:
    inputs = reader.layout.get(node.all_input_nodes[0])
    if inputs is None:
        return reader.unknown(node)
    reader.add_layer(node, "norm", inputs, inputs)
    return inputs


def read_prelu(reader: NetworkReader, node: fx.Node) -> int | None:
    if reader.module(node).num_parameters > 1:
        return read_norm(reader, node)
    one = reader.new(FixedWidth(1))
    reader.add_layer(node, "norm", one, one)
    return reader.layout.get(node.all_input_nodes[0])


def read_cat(reader: NetworkReader, node: fx.Node) -> int | None:
    tensors = _argument(node, 0, "tensors")
    nodes = list(tensors) if isinstance(tensors, (list, tuple)) else []
    dim = _argument(node, 1, "dim", 0)
    known = bool(nodes) and all(n in reader.layout for n in nodes)
    if not known or dim not in (1, 1 - len(reader.shape(node))):
        return reader.unknown(node)
    parts = tuple(reader.layout[n] for n in nodes)
    return reader.new(Concat(sum(map(reader.size, parts)), parts))


def read_pad(reader: NetworkReader, node: fx.Node) -> int | None:
    [source, *others] = reader.tensors(node)
    amounts = _argument(node, 1, "pad")
    inputs = reader.layout.get(source)
    axes = len(reader.shape(source))
    if inputs is None or others or not isinstance(amounts, (list, tuple)):
        return reader.unknown(node)
    # (before, after) of each axis, the last axis first
    pairs = [*zip(amounts[::2], amounts[1::2], strict=True)] + [(0, 0)] * axes
    before, after = pairs[axes - 2]
    if before == after == 0:
        return inputs
    zeros = _argument(node, 2, "mode", "constant") == "constant"
    zeros &= _argument(node, 3, "value", 0) in (0, None)
    if not zeros or min(before, after) < 0:
        return reader.unknown(node)
    size = reader.size(inputs)
    positions = tuple(range(before, before + size))
    return reader.new(Placed(before + size + after, inputs, positions, zeros=True))


def read_reduction(reader: NetworkReader, node: fx.Node) -> int | None:
    """A mean, sum or maximum over pixels."""
    [source, *others] = reader.tensors(node)
    dims = _argument(node, 1, "dim")
    axes = len(reader.shape(source))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    if others or any(not isinstance(d, int) or d % axes < 2 for d in dims):
        return reader.unknown(node)
    return reader.layout.get(source)


def read_reshape(reader: NetworkReader, node: fx.Node) -> int | None:
    source = node.all_input_nodes[0]
    inputs = reader.layout.get(source)
    before, after = reader.shape(source), reader.shape(node)
    if inputs is None or len(after) < 2 or after[0] != before[0]:
        return reader.unknown(node)
    if node.target in ("view", "reshape", torch.reshape) and after[1] in _flat(node):
        # a size in the code is right only for the original width
        return reader.unknown(node, f"{node.name!r} has the number {after[1]} written into it")
    if before[1] == after[1] and prod(before[2:]) == prod(after[2:]):
        outputs: int | None = inputs
    elif len(after) == 2 and after[1] == prod(before[1:]):
        outputs = reader.new(Repeated(after[1], inputs, prod(before[2:])))
    else:
        outputs = reader.unknown(node)
    return _tied_to_given_size(reader, node, outputs)


def _tied_to_given_size(reader: NetworkReader, node: fx.Node, outputs: int | None) -> int | None:
    """x.view(b, c, 1, 1) has the channels of the tensor that c was read from."""
    sizes = _flat(node)
    channels = sizes[1] if len(sizes) > 1 else None
    if outputs is None or not isinstance(channels, fx.Node):
        return outputs
    reason = f"{node.name!r} reads the number of channels from another tensor"
    for tensor in reader.origins(channels):
        outputs = reader.ties.tie(outputs, reader.layout[tensor], reason)
    return outputs


def read_index(reader: NetworkReader, node: fx.Node) -> int | None:
    source, keys = node.args
    if not isinstance(source, fx.Node) or source not in reader.layout:
        shape = reader.shape(node)
        return reader.new(FixedWidth(shape[1])) if len(shape) > 1 else None
    keys = keys if isinstance(keys, tuple) else (keys,)
    spatial = all(k is None or isinstance(k, slice) for k in keys)
    if not spatial or any(k != slice(None) for k in keys[:2]):
        return reader.unknown(node)
    return reader.layout[source]


def read_scalar(reader: NetworkReader, node: fx.Node) -> int | None:
    """A difference or quotient with a number on the right."""
    [source, *others] = reader.tensors(node)
    if others or node.args[0] is not source:
        return reader.unknown(node)
    return reader.layout.get(source)


def read_query(reader: NetworkReader, node: fx.Node) -> int | None:
    """An attribute of a tensor that a narrower one has as well: its size, its device."""
    return reader.unknown(node) if reader.shape(node) else None


def read_custom(reader: NetworkReader, node: fx.Node) -> int | None:
    """A module of an unknown class: one derived from a known layer, or one that keeps channels
    apart. It is run to see whether it is."""
    module, tensors = reader.module(node), reader.tensors(node)
    if len(tensors) != 1 or len(node.args) != 1 or node.kwargs:
        return reader.unknown(node)
    if isinstance(module, _ConvNd):
        return read_conv(reader, node)
    if isinstance(module, nn.Linear):
        return read_linear(reader, node)
    [source] = tensors
    inputs, shape = reader.layout.get(source), reader.shape(source)
    groups = getattr(module, "num_groups", None)
    unit = shape[1] // groups if inputs is not None and isinstance(groups, int) else 1
    if inputs is None or not keeps_channels_apart(module, shape, unit):
        return reader.unknown(node)
    if any(t.numel() > 1 for t in (*module.parameters(), *module.buffers())):
        reason = f"{reader.describe(node)} has groups of {unit} channels"
        reader.ties.keep_together(inputs, unit, reason)
        reader.add_layer(node, "norm", inputs, inputs)
    return inputs


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _flat(node: fx.Node) -> list[Any]:
    """The sizes given to a view, as arguments or as a list."""
    flat: list[Any] = []
    for arg in node.args[1:]:
        flat += arg if isinstance(arg, (list, tuple)) else [arg]
    return flat


_SAME_MODULES = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU,
    nn.SiLU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.Sigmoid, nn.Tanh, nn.Softplus,
    nn.Softsign, nn.LogSigmoid, nn.Dropout, nn.Dropout2d, nn.AlphaDropout, nn.MaxPool2d,
    nn.AvgPool2d, nn.LPPool2d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d, nn.Upsample,
    nn.UpsamplingNearest2d, nn.UpsamplingBilinear2d, nn.ZeroPad2d, nn.ConstantPad2d,
    nn.ReflectionPad2d, nn.ReplicationPad2d, nn.CircularPad2d,
)  # fmt: skip

_CONVS = (
    nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
)  # fmt: skip

_NORMS = (
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm, nn.InstanceNorm1d,
    nn.InstanceNorm2d, nn.InstanceNorm3d,
)  # fmt: skip

_SAME_NAMES = (
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "selu", "selu_", "celu",
    "gelu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "hardtanh_", "sigmoid",
    "sigmoid_", "tanh", "tanh_", "softplus", "softsign", "logsigmoid", "dropout", "dropout2d",
    "alpha_dropout", "max_pool2d", "avg_pool2d", "lp_pool2d", "adaptive_avg_pool2d",
    "adaptive_max_pool2d", "interpolate", "clamp", "clamp_", "abs", "neg", "exp", "sqrt", "square",
    "contiguous", "clone", "detach", "to", "float", "half", "bfloat16",
)  # fmt: skip

MODULES: dict[type, Operation] = {
    **dict.fromkeys(_SAME_MODULES, read_channelwise),
    nn.Sequential: read_sequential,
    **dict.fromkeys(_CONVS, read_conv),
    nn.Linear: read_linear,
    **dict.fromkeys(_NORMS, read_norm),
    nn.PReLU: read_prelu,
    nn.Flatten: read_reshape,
    PaddedAdd: read_padded_add,
}

METHODS: dict[str, Operation] = {
    **dict.fromkeys(_SAME_NAMES, read_channelwise),
    **dict.fromkeys(("add", "add_"), read_add),
    **dict.fromkeys(("mul", "mul_"), read_mul),
    **dict.fromkeys(("sub", "div"), read_scalar),
    **dict.fromkeys(("mean", "sum", "amax"), read_reduction),
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "unsqueeze"), read_reshape),
    **dict.fromkeys(("size", "dim"), read_query),
    "expand_as": read_mul,
}

_NAMED = [getattr(module, name, None) for module in (torch, F) for name in _SAME_NAMES]

FUNCTIONS: dict[Any, Operation] = {
    **{function: read_channelwise for function in _NAMED if function is not None},
    **dict.fromkeys((operator.add, operator.iadd, torch.add), read_add),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul), read_mul),
    **dict.fromkeys((operator.sub, operator.truediv, torch.sub, torch.div), read_scalar),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), read_cat),
    **dict.fromkeys((torch.mean, torch.sum, torch.amax), read_reduction),
    **dict.fromkeys((torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze), read_reshape),
    F.pad: read_pad,
    operator.getitem: read_index,
    getattr: read_query,
}
