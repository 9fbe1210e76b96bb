"""Adds and products of two tensors: gates force equal widths, residual adds need not."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from torch import fx, nn

from .axes import argument
from .cuts import part
from .layouts import Placed, Union
from .network_graph import path_of
from .reader import Layer, NetworkReader, ResidualAdd

__all__ = ["read_add", "read_glu", "read_mul", "read_padded_add"]

Combine = Callable[[NetworkReader, fx.Node, fx.Node, fx.Node], int | None]


def read_padded_add(reader: NetworkReader, node: fx.Node) -> int | None:
    """The add of a network that was slimmed before."""
    module = reader.module(node)
    operands = tuple(reader.layout[n] for n in node.all_input_nodes)
    parts = tuple(
        index
        if len(positions) == module.width
        else reader.new(Placed(module.width, index, positions, zeros=False))
        for index, positions in zip(operands, module.positions, strict=True)
    )
    residual_add = ResidualAdd(
        node=node,
        sources=tuple(node.all_input_nodes),
        operands=operands,
        parts=parts,
        outputs=reader.new(Union(module.width, parts)),
        module=str(node.target),
        block=reader.block_of(str(node.target)),
    )
    reader.adds.append(residual_add)
    return residual_add.outputs


def _read_pair(combine: Combine, reader: NetworkReader, node: fx.Node) -> int | None:
    # a single number, even if it is a parameter, leaves the layout of the other as it is
    tensors = [t for t in reader.tensors(node) if t in reader.layout or prod(reader.shape(t)) > 1]
    if len(tensors) == 1:
        reader.axis[node] = reader.axis_of(tensors[0])
        return reader.layout.get(tensors[0])
    for tensor in tensors:
        if tensor not in reader.layout and (name := _parameter(reader, tensor)):
            return reader.unknown(node, _meets_parameter(node, name))
    if len(tensors) != 2 or any(t not in reader.layout for t in tensors):
        return reader.unknown(node)
    a, b = tensors
    # broadcasting counts axes from the last one
    a_last, b_last = (reader.axis_of(t) - len(reader.shape(t)) for t in tensors)
    reader.axis[node] = len(reader.shape(node)) + a_last
    if a_last != b_last:
        return reader.unknown(node)
    for wide, narrow in ((a, b), (b, a)):
        if reader.shape(narrow)[a_last] == 1 < reader.shape(wide)[a_last]:
            reader.freeze([narrow], f"it spreads over all channels in {node.name!r}")
            return reader.layout[wide]
    # with an option, such as the alpha of torch.add, it is no plain add that could be padded
    return (_tie if node.kwargs else combine)(reader, node, a, b)


def _parameter(reader: NetworkReader, tensor: fx.Node) -> str:
    """The first parameter or buffer that a tensor is computed from, if it does not depend on the
    images."""
    sources = [n for n in reader.order if n is tensor or n in reader.ancestors[tensor]]
    if any(n.op == "placeholder" for n in sources):
        return ""
    return next((str(n.target) for n in sources if n.op == "get_attr"), "")


def _meets_parameter(node: fx.Node, name: str) -> str:
    return (
        f"it meets {name!r} in {node.name!r}, a parameter outside of layers, which keeps its size"
    )


def _tie(reader: NetworkReader, node: fx.Node, a: fx.Node, b: fx.Node) -> int | None:
    name = _parameter(reader, a) or _parameter(reader, b)
    reason = f"it is combined with an unmatched tensor in {node.name!r}"
    reason = _meets_parameter(node, name) if name else reason
    return reader.ties.tie(reader.layout[a], reader.layout[b], reason)


def read_glu(reader: NetworkReader, node: fx.Node) -> int | None:
    """The first half of the channels, each gated by one of the second half."""
    [source] = reader.tensors(node)
    inputs, axis = reader.layout.get(source), reader.axis_of(source)
    dim = reader.module(node).dim if node.op == "call_module" else argument(node, 1, "dim", -1)
    if inputs is None:
        return reader.unknown(node)
    reader.axis[node] = axis
    if dim % len(reader.shape(source)) != axis:
        return inputs
    size = reader.size(inputs)
    reason = f"{reader.describe(node)} splits its channels into 2"
    first = part(reader.ties, inputs, 0, size // 2, reason)
    return reader.ties.tie(first, part(reader.ties, inputs, size // 2, size, reason), reason)


def _residual(reader: NetworkReader, node: fx.Node, a: fx.Node, b: fx.Node) -> int | None:
    ties = reader.ties
    one, two = reader.layout[a], reader.layout[b]
    if reader.residual == "tied" or reader.shape(a) != reader.shape(b) or reader.axis_of(a) != 1:
        return _tie(reader, node, a, b)
    if ties.same(one, two):
        return one
    if _is_projection(reader, a, b) or _is_projection(reader, b, a):
        short, main = sorted((a, b), key=reader.depth.__getitem__)
        layer = ties.layer_of(reader.layout[short])
        if layer and reader.depth[short] < reader.depth[main]:
            ties.shortcuts.add(layer)
            _drop_projection_norm(reader, node, short)
    # channels of a concatenation shift when an earlier one is dropped: padding cannot align
    elif not ties.has_concat(one) and not ties.has_concat(two):
        add = (_project if reader.residual == "project" else _pad)(reader, node, a, b)
        reader.adds.append(add)
        return add.outputs
    return _tie(reader, node, a, b)


read_add = partial(_read_pair, _residual)
read_mul = partial(_read_pair, _tie)


def _is_projection(reader: NetworkReader, own: fx.Node, other: fx.Node) -> bool:
    """Whether `own` is made by a convolution parallel to the branch of `other`."""
    layer = reader.ties.layer_of(reader.layout[own])
    if layer is None:
        return False
    maker = reader.maker[layer]
    others = {reader.maker[name] for name in reader.ties.leaves(reader.layout[other])}
    if not others or maker in reader.ancestors[other] | {other}:
        return False
    return not others & (reader.ancestors[maker] | {maker})


def _pad(reader: NetworkReader, node: fx.Node, a: fx.Node, b: fx.Node) -> ResidualAdd:
    unpadded = _unpadded(reader, a), _unpadded(reader, b)
    parts = tuple(index for _, index in unpadded)
    return ResidualAdd(
        node=node,
        sources=tuple(source for source, _ in unpadded),
        operands=(reader.layout[a], reader.layout[b]),
        parts=parts,
        outputs=reader.new(Union(reader.shape(node)[1], parts)),
        module=_add_module(reader, node),
        block=reader.block_of(path_of(node)),
    )


def _unpadded(reader: NetworkReader, node: fx.Node) -> tuple[fx.Node, int]:
    """The tensor before the network's own padding of its channels, and its layout in the sum."""
    layout = reader.layouts[reader.layout[node]]
    if isinstance(layout, Placed) and layout.zeros:
        source = node.all_input_nodes[0]
        if reader.layout.get(source) == layout.part:
            return source, reader.new(replace(layout, zeros=False))
    return node, reader.layout[node]


def _add_module(reader: NetworkReader, node: fx.Node) -> str | None:
    """The module that does nothing but this add, if there is one."""
    path = path_of(node)
    if not path or any(True for _ in reader.modules[path].children()):
        return None
    return path if [path_of(n) for n in reader.graph.nodes].count(path) == 1 else None


def _project(reader: NetworkReader, node: fx.Node, a: fx.Node, b: fx.Node) -> ResidualAdd:
    # the shortcut is the operand that passed through fewer convolutions
    shortcut = 1 if reader.depth[a] >= reader.depth[b] else 0
    operands = (reader.layout[a], reader.layout[b])
    inputs, outputs = operands[shortcut], operands[1 - shortcut]
    module = _identity_module(reader, (a, b)[shortcut])
    name = module or f"projections.{node.name}"
    while not module and name in reader.modules:
        name += "_"  # a network that was slimmed before may have a projection of this name
    block = reader.block_of(path_of(node))
    conv = Layer(
        name=f"{name}.0",
        kind="conv",
        inputs=inputs,
        outputs=outputs,
        size=reader.shape(node)[2:],
        block=block,
        order=reader.order[node],
    )
    norm = replace(conv, name=f"{name}.1", kind="norm", inputs=outputs, bias=True, by_output=2)
    return ResidualAdd(
        node=node,
        sources=(a, b),
        operands=operands,
        parts=operands,
        outputs=outputs,
        module=module,
        block=block,
        shortcut=shortcut,
        projection=(conv, norm) if _has_projection_norm(reader, node) else (conv,),
    )


def _identity_module(reader: NetworkReader, node: fx.Node) -> str | None:
    """The module that is the identity shortcut, if there is one."""
    if node.op != "call_module" or len(node.users) > 1:
        return None
    identity = isinstance(reader.module(node), (nn.Identity, nn.Sequential))
    return str(node.target) if identity else None


def _has_projection_norm(reader: NetworkReader, node: fx.Node) -> bool:
    """The attribute `projection_norm` of the block of the node; True if it has none."""
    path = path_of(node)
    while path:
        if hasattr(reader.modules[path], "projection_norm"):
            return bool(reader.modules[path].projection_norm)
        path = path.rpartition(".")[0]
    return True


def _drop_projection_norm(reader: NetworkReader, node: fx.Node, short: fx.Node) -> None:
    """Where derived networks project without a norm, the network's own projection loses its."""
    if reader.residual != "project" or _has_projection_norm(reader, node):
        return
    layer = reader.layers.get(str(short.target))
    conv: Any = reader.modules.get(str(short.all_input_nodes[0].target))
    if layer and layer.kind == "norm" and isinstance(conv, nn.Conv2d) and conv.stride == (1, 1):
        reader.layers[layer.name] = replace(layer, original_only=True)
