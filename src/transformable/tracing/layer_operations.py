"""Operations that have weights: convolutions, linear layers, norms, and modules of any class."""

from typing import Any

from torch import fx, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from .layouts import FixedWidth, Repeated
from .probing import (
    keeps_channels_apart,
    makes_channels_by_itself,
    own_class,
    standardises_inputs,
)
from .reader import NetworkReader

__all__ = ["read_conv", "read_custom", "read_linear", "read_norm", "read_prelu"]


def read_conv(reader: NetworkReader, node: fx.Node) -> int | None:
    module: Any = reader.module(node)
    [source] = node.all_input_nodes
    inputs, axes = reader.channels(source, 1), len(reader.shape(source))
    transposed = isinstance(module, _ConvTransposeNd)
    if inputs is None or axes != module.weight.ndim or _is_of_parts(reader, source):
        return reader.unknown(node)
    if transposed and module.groups > 1:
        name = reader.describe(node)
        return reader.unknown(
            node, f"{name} is a transposed convolution in groups ({module.groups})"
        )
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
    if not _is_known(reader, node, kind):
        return reader.unknown(node)
    [source] = node.all_input_nodes
    standardised = not _is_plain(reader.module(node)) and reader.probe(
        node, standardises_inputs, kind, reader.shape(source)
    )
    return reader.add_free_layer(node, kind, inputs, standardised)


def _is_of_parts(reader: NetworkReader, source: fx.Node) -> bool:
    """Whether the first axis of a tensor has parts of images: each would count as an image."""
    images = next(node for node in reader.graph.nodes if node.op == "placeholder")
    return reader.shape(source)[0] != reader.shape(images)[0]


def _is_known(reader: NetworkReader, node: fx.Node, kind: str) -> bool:
    """Whether a layer is of one of torch's own classes, or behaves like one when it is run."""
    [source] = node.all_input_nodes
    plain = _is_plain(reader.module(node))
    return plain or reader.probe(node, makes_channels_by_itself, kind, reader.shape(source))


def _is_plain(module: nn.Module) -> bool:
    return own_class(module) is type(module)


def read_linear(reader: NetworkReader, node: fx.Node) -> int | None:
    """On the last axis, which has the channels."""
    [source] = node.all_input_nodes
    axis = len(reader.shape(source)) - 1
    inputs = reader.channels(source, axis)
    if inputs is None or axis < 1 or _is_of_parts(reader, source):
        return reader.unknown(node)
    reader.axis[node] = axis
    return _free_layer(reader, node, "linear", inputs)


def read_norm(reader: NetworkReader, node: fx.Node) -> int | None:
    inputs = reader.channels(node.all_input_nodes[0], 1)
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


def read_custom(reader: NetworkReader, node: fx.Node) -> int | None:
    """An unknown module: a layer of a class derived from a known one, or a module that treats
    channels separately, with or without a parameter for each. It is run to find out."""
    tensors = reader.tensors(node)
    if len(tensors) != 1 or len(node.all_input_nodes) != 1 or tensors[0] not in reader.layout:
        return reader.unknown(node)
    [source] = tensors
    module = reader.module(node) if node.op == "call_module" else nn.Identity()
    if isinstance(module, _ConvNd):
        return read_conv(reader, node)
    if isinstance(module, nn.Linear):
        return read_linear(reader, node)
    inputs, shape, axis = reader.layout[source], reader.shape(source), reader.axis_of(source)
    groups = getattr(module, "num_groups", None)
    unit = shape[axis] // groups if isinstance(groups, int) else 1
    if str(node.target) in reader.opaque:
        return reader.unknown(node)
    if not reader.probe(node, keeps_channels_apart, shape, unit, axis):
        mixes = reader.shape(node) == shape
        name = reader.describe(node)
        return reader.unknown(node, f"{name} mixes channels" * mixes)
    if any(t.numel() > 1 for t in (*module.parameters(), *module.buffers())):
        reason = f"{reader.describe(node)} has groups of {unit} channels"
        reader.ties.keep_together(inputs, unit, reason)
        reader.add_layer(node, "norm", inputs, inputs)
    reader.axis[node] = axis
    return inputs
