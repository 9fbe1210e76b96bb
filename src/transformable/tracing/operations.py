"""The operations that can be read: what each does to the channels of a tensor.

A handler gives the layout of the node's output, or None where it gives no tensor with channels.
"""

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from ..layers import PaddedAdd
from .adds import add, mul, padded_add
from .layouts import Concat, Fixed, Place, Repeat
from .network_graph import in_mode
from .reader import Reading

__all__ = ["handler"]

Handler = Callable[[Reading, fx.Node], int | None]


def same(reading: Reading, node: fx.Node) -> int | None:
    """Each channel by itself: the output has the channels of the input."""
    [source, *others] = reading.tensors(node)
    return reading.unknown(node) if others else reading.layout.get(source)


def sequential(reading: Reading, node: fx.Node) -> int | None:
    """An empty one is an identity; any other has been followed inside."""
    return reading.unknown(node) if len(reading.module(node)) else same(reading, node)


def conv(reading: Reading, node: fx.Node) -> int | None:
    module: nn.Conv2d = reading.module(node)
    [source] = node.all_input_nodes
    inputs = reading.layout.get(source)
    if inputs is None or len(reading.shape(source)) != 4:
        return reading.unknown(node)
    if module.groups == 1:
        return reading.own(node, "conv", inputs, module.out_channels)
    if module.groups == module.in_channels == module.out_channels:
        reading.add_layer(node, "depthwise conv", inputs, inputs)
        return inputs
    return reading.unknown(
        node, f"{reading.describe(node)} is a grouped convolution ({module.groups} groups)"
    )


def linear(reading: Reading, node: fx.Node) -> int | None:
    module: nn.Linear = reading.module(node)
    [source] = node.all_input_nodes
    inputs = reading.layout.get(source)
    if inputs is None or len(reading.shape(source)) != 2:
        return reading.unknown(node)
    return reading.own(node, "linear", inputs, module.out_features)


def norm(reading: Reading, node: fx.Node) -> int | None:
    inputs = reading.layout.get(node.all_input_nodes[0])
    if inputs is None:
        return reading.unknown(node)
    reading.add_layer(node, "norm", inputs, inputs)
    return inputs


def prelu(reading: Reading, node: fx.Node) -> int | None:
    if reading.module(node).num_parameters > 1:
        return norm(reading, node)
    inputs = reading.layout.get(node.all_input_nodes[0])
    one = reading.new(Fixed(1))
    reading.add_layer(node, "norm", one, one)
    return inputs


def cat(reading: Reading, node: fx.Node) -> int | None:
    tensors = _argument(node, 0, "tensors")
    nodes = list(tensors) if isinstance(tensors, (list, tuple)) else []
    dim = _argument(node, 1, "dim", 0)
    known = bool(nodes) and all(n in reading.layout for n in nodes)
    if not known or dim not in (1, 1 - len(reading.shape(node))):
        return reading.unknown(node)
    parts = tuple(reading.layout[n] for n in nodes)
    return reading.new(Concat(sum(map(reading.size, parts)), parts))


def pad(reading: Reading, node: fx.Node) -> int | None:
    [source, *others] = reading.tensors(node)
    amounts = _argument(node, 1, "pad")
    inputs = reading.layout.get(source)
    axes = len(reading.shape(source))
    if inputs is None or others or not isinstance(amounts, (list, tuple)):
        return reading.unknown(node)
    # (before, after) of each axis, the last axis first
    pairs = [*zip(amounts[::2], amounts[1::2], strict=True)] + [(0, 0)] * axes
    before, after = pairs[axes - 2]
    if before == after == 0:
        return inputs
    zeros = _argument(node, 2, "mode", "constant") == "constant"
    zeros &= _argument(node, 3, "value", 0) in (0, None)
    if not zeros or min(before, after) < 0:
        return reading.unknown(node)
    size = reading.size(inputs)
    positions = tuple(range(before, before + size))
    return reading.new(Place(before + size + after, inputs, positions, zeros=True))


def reduce(reading: Reading, node: fx.Node) -> int | None:
    """A mean over pixels."""
    [source, *others] = reading.tensors(node)
    dims = _argument(node, 1, "dim")
    axes = len(reading.shape(source))
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    if others or any(not isinstance(d, int) or d % axes < 2 for d in dims):
        return reading.unknown(node)
    return reading.layout.get(source)


def reshape(reading: Reading, node: fx.Node) -> int | None:
    source = node.all_input_nodes[0]
    inputs = reading.layout.get(source)
    before, after = reading.shape(source), reading.shape(node)
    if inputs is None or len(after) < 2 or after[0] != before[0]:
        return reading.unknown(node)
    if node.target in ("view", "reshape", torch.reshape) and after[1] in _flat(node):
        # right only for the network as it is
        return reading.unknown(node, f"{node.name!r} has the number {after[1]} written into it")
    if before[1] == after[1] and prod(before[2:]) == prod(after[2:]):
        outputs: int | None = inputs
    elif len(after) == 2 and after[1] == prod(before[1:]):
        outputs = reading.new(Repeat(after[1], inputs, prod(before[2:])))
    else:
        outputs = reading.unknown(node)
    return _as_wide_as_said(reading, node, outputs)


def _as_wide_as_said(reading: Reading, node: fx.Node, outputs: int | None) -> int | None:
    """x.view(b, c, 1, 1) has the channels that c was read from."""
    sizes = _flat(node)
    channels = sizes[1] if len(sizes) > 1 else None
    if outputs is None or not isinstance(channels, fx.Node):
        return outputs
    reason = f"{node.name!r} reads the number of channels from another tensor"
    for tensor in reading.origins(channels):
        outputs = reading.ties.tie(outputs, reading.layout[tensor], reason)
    return outputs


def index(reading: Reading, node: fx.Node) -> int | None:
    source, keys = node.args
    if not isinstance(source, fx.Node) or source not in reading.layout:
        shape = reading.shape(node)
        return reading.new(Fixed(shape[1])) if len(shape) > 1 else None
    keys = keys if isinstance(keys, tuple) else (keys,)
    spatial = all(k is None or isinstance(k, slice) for k in keys)
    if not spatial or any(k != slice(None) for k in keys[:2]):
        return reading.unknown(node)
    return reading.layout[source]


def scalar(reading: Reading, node: fx.Node) -> int | None:
    """Minus or divided by a number."""
    [source, *others] = reading.tensors(node)
    return (
        reading.unknown(node)
        if others or node.args[0] is not source
        else reading.layout.get(source)
    )


def query(reading: Reading, node: fx.Node) -> int | None:
    """A question about a tensor, answered by the narrower one as well: its size, its device."""
    return reading.unknown(node) if reading.shape(node) else None


def custom(reading: Reading, node: fx.Node) -> int | None:
    """A module that nothing is known of; without parameters, it can be tried out."""
    module, tensors = reading.module(node), reading.tensors(node)
    if any(True for _ in module.parameters()) or len(tensors) != 1 or len(node.args) != 1:
        return reading.unknown(node)
    x = torch.rand(reading.shape(tensors[0]), generator=torch.Generator().manual_seed(0))
    half = x[:, : (x.shape[1] + 1) // 2]
    try:
        with in_mode(module, training=False), torch.no_grad():
            alone = torch.equal(module(x)[:, : half.shape[1]], module(half))
    except Exception:  # it is somebody else's code
        alone = False
    return reading.layout.get(tensors[0]) if alone else reading.unknown(node)


def arithmetic(reading: Reading, node: fx.Node) -> int | None:
    return None


def handler(reading: Reading, node: fx.Node) -> Handler:
    """What reads this node."""
    if node.op == "call_module":
        module = reading.module(node)
        if any(parameter in reading.shared for parameter in module.parameters()):
            return _shared
        if module._forward_pre_hooks:
            return _hooked
        return MODULES.get(type(module), custom)
    if not reading.shape(node) and not any(map(reading.shape, node.all_input_nodes)):
        return arithmetic
    if node.op == "call_method":
        return METHODS.get(str(node.target), Reading.unknown)
    return FUNCTIONS.get(node.target, Reading.unknown)


def _shared(reading: Reading, node: fx.Node) -> int | None:
    return reading.unknown(node, f"the weights of {reading.describe(node)} are used more than once")


def _hooked(reading: Reading, node: fx.Node) -> int | None:
    return reading.unknown(node, f"{reading.describe(node)} has a hook that may make its weights")


def _argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _flat(node: fx.Node) -> list[Any]:
    """The sizes that a view is given, one by one or as a list."""
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

_SAME_NAMES = (
    "relu", "relu_", "relu6", "leaky_relu", "leaky_relu_", "elu", "elu_", "selu", "selu_", "celu",
    "gelu", "silu", "mish", "hardswish", "hardsigmoid", "hardtanh", "hardtanh_", "sigmoid",
    "sigmoid_", "tanh", "tanh_", "softplus", "softsign", "logsigmoid", "dropout", "dropout2d",
    "alpha_dropout", "max_pool2d", "avg_pool2d", "lp_pool2d", "adaptive_avg_pool2d",
    "adaptive_max_pool2d", "interpolate", "clamp", "clamp_", "abs", "neg", "exp", "sqrt", "square",
    "contiguous", "clone", "detach", "to", "float", "half", "bfloat16",
)  # fmt: skip

MODULES: dict[type, Handler] = {
    **dict.fromkeys(_SAME_MODULES, same),
    nn.Sequential: sequential,
    nn.Conv2d: conv,
    nn.Linear: linear,
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.SyncBatchNorm, nn.InstanceNorm2d), norm),
    nn.PReLU: prelu,
    nn.Flatten: reshape,
    PaddedAdd: padded_add,
}

METHODS: dict[str, Handler] = {
    **dict.fromkeys(_SAME_NAMES, same),
    **dict.fromkeys(("add", "add_"), add),
    **dict.fromkeys(("mul", "mul_"), mul),
    **dict.fromkeys(("sub", "div"), scalar),
    **dict.fromkeys(("mean", "sum", "amax"), reduce),
    **dict.fromkeys(("flatten", "view", "reshape", "squeeze", "unsqueeze"), reshape),
    **dict.fromkeys(("size", "dim"), query),
    "expand_as": mul,
}

_NAMED = [getattr(module, name, None) for module in (torch, F) for name in _SAME_NAMES]

FUNCTIONS: dict[Any, Handler] = {
    **{function: same for function in _NAMED if function is not None},
    **dict.fromkeys((operator.add, operator.iadd, torch.add), add),
    **dict.fromkeys((operator.mul, operator.imul, torch.mul), mul),
    **dict.fromkeys((operator.sub, operator.truediv, torch.sub, torch.div), scalar),
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), cat),
    **dict.fromkeys((torch.mean, torch.sum, torch.amax), reduce),
    **dict.fromkeys((torch.flatten, torch.reshape, torch.squeeze, torch.unsqueeze), reshape),
    F.pad: pad,
    operator.getitem: index,
    getattr: query,
}
