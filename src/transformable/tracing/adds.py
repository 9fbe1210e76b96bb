"""Where tensors meet: gates force equal widths, residual adds need not."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from torch import fx, nn

from .layouts import Place, Union
from .network_graph import block_of, path_of
from .reader import Join, Layer, Reading

__all__ = ["add", "mul", "padded_add"]


def mul(reading: Reading, node: fx.Node) -> int | None:
    return _meet(reading, node, _gate)


def add(reading: Reading, node: fx.Node) -> int | None:
    return _meet(reading, node, _residual)


def _meet(
    reading: Reading,
    node: fx.Node,
    meeting: Callable[[Reading, fx.Node, fx.Node, fx.Node], int | None],
) -> int | None:
    # one number for all channels is no matter, be it a parameter
    tensors = [
        t for t in reading.tensors(node) if t in reading.layout or prod(reading.shape(t)) > 1
    ]
    if len(tensors) == 1:
        return reading.layout.get(tensors[0])
    if len(tensors) != 2 or any(t not in reading.layout for t in tensors) or node.kwargs:
        return reading.unknown(node)
    a, b = tensors
    for wide, narrow in ((a, b), (b, a)):
        if reading.shape(narrow)[1] == 1 < reading.shape(wide)[1]:
            reading.freeze([narrow], f"it spreads over all channels in {node.name!r}")
            return reading.layout[wide]
    return meeting(reading, node, a, b)


def _gate(reading: Reading, node: fx.Node, a: fx.Node, b: fx.Node) -> int | None:
    reason = f"it meets a tensor of another kind in {node.name!r}"
    return reading.ties.tie(reading.layout[a], reading.layout[b], reason)


def _residual(reading: Reading, node: fx.Node, a: fx.Node, b: fx.Node) -> int | None:
    ties = reading.ties
    one, two = reading.layout[a], reading.layout[b]
    if reading.residual == "tied" or reading.shape(a) != reading.shape(b):
        return _gate(reading, node, a, b)
    if ties.same(one, two):
        return one
    if _beside(reading, a, b) or _beside(reading, b, a):
        short, main = sorted((a, b), key=reading.depth.__getitem__)
        if ties.own(reading.layout[short]) and reading.depth[short] < reading.depth[main]:
            ties.mark_shortcut(reading.layout[short])
            _undo_norm(reading, node, short)
        return _gate(reading, node, a, b)
    if ties.mixed(one) or ties.mixed(two):
        # channels of a concatenation shift when one before them goes: no leading ones to pad to
        return _gate(reading, node, a, b)
    meeting = _projected if reading.residual == "project" else _padded
    return meeting(reading, node, a, b)


def _beside(reading: Reading, own: fx.Node, other: fx.Node) -> bool:
    """Whether one comes from a convolution beside the other branch: a projection shortcut."""
    layer = reading.ties.own(reading.layout[own])
    if layer is None:
        return False
    maker = reading.maker[layer]
    others = {reading.maker[name] for name in reading.ties.leaves(reading.layout[other])}
    return (
        bool(others)
        and maker not in reading.ancestors[other] | {other}
        and not others & (reading.ancestors[maker] | {maker})
    )


def _padded(reading: Reading, node: fx.Node, a: fx.Node, b: fx.Node) -> int:
    unpadded = _unpadded(reading, a), _unpadded(reading, b)
    sources, parts = tuple(n for n, _ in unpadded), tuple(i for _, i in unpadded)
    outputs = reading.new(Union(reading.shape(node)[1], parts))
    join = Join(
        node=node,
        sources=sources,
        operands=(reading.layout[a], reading.layout[b]),
        parts=parts,
        outputs=outputs,
        place=_add_module(reading, node),
        block=block_of(reading.stages, path_of(node)),
    )
    reading.joins.append(join)
    return outputs


def _unpadded(reading: Reading, node: fx.Node) -> tuple[fx.Node, int]:
    layout = reading.layouts[reading.layout[node]]
    if isinstance(layout, Place) and layout.zeros:
        source = node.all_input_nodes[0]
        if reading.layout.get(source) == layout.part:
            return source, reading.new(replace(layout, zeros=False))
    return node, reading.layout[node]


def _add_module(reading: Reading, node: fx.Node) -> str | None:
    """The module that does nothing but this add, if there is one."""
    path = path_of(node)
    if not path or any(True for _ in reading.modules[path].children()):
        return None
    alone = all(path_of(n) != path for n in reading.graph.nodes if n is not node)
    return path if alone else None


def _projected(reading: Reading, node: fx.Node, a: fx.Node, b: fx.Node) -> int:
    # the shortcut is the operand that passed through fewer convolutions
    shortcut = 1 if reading.depth[a] >= reading.depth[b] else 0
    operands = (reading.layout[a], reading.layout[b])
    inputs, outputs = operands[shortcut], operands[1 - shortcut]
    place = _identity(reading, (a, b)[shortcut])
    name = place or _new_name(reading, f"projections.{node.name}")
    block = block_of(reading.stages, path_of(node))
    conv = Layer(
        name=f"{name}.0",
        kind="conv",
        inputs=inputs,
        outputs=outputs,
        size=reading.shape(node)[2:],
        block=block,
        order=reading.order[node],
    )
    norm = replace(conv, name=f"{name}.1", kind="norm", inputs=outputs, bias=True)
    join = Join(
        node=node,
        sources=(a, b),
        operands=operands,
        parts=operands,
        outputs=outputs,
        place=place,
        block=block,
        shortcut=shortcut,
        projection=(conv, norm) if _projection_norm(reading, node) else (conv,),
    )
    reading.joins.append(join)
    return join.outputs


def _new_name(reading: Reading, name: str) -> str:
    # a network that was slimmed before may have a projection of this name
    while name in reading.modules:
        name += "_"
    return name


def _identity(reading: Reading, node: fx.Node) -> str | None:
    """The module that passes the shortcut on as it is, if there is one."""
    if node.op != "call_module" or len(node.users) > 1:
        return None
    return (
        str(node.target) if isinstance(reading.module(node), (nn.Identity, nn.Sequential)) else None
    )


def _projection_norm(reading: Reading, node: fx.Node) -> bool:
    path = path_of(node)
    while path:
        if hasattr(reading.modules[path], "projection_norm"):
            return bool(reading.modules[path].projection_norm)
        path = path.rpartition(".")[0]
    return True


def _undo_norm(reading: Reading, node: fx.Node, short: fx.Node) -> None:
    """Where derived networks project without a norm, the network's own projection loses its."""
    if reading.residual != "project" or _projection_norm(reading, node):
        return
    layer = reading.layers.get(str(short.target))
    conv: Any = reading.modules.get(str(short.all_input_nodes[0].target))
    if layer and layer.kind == "norm" and isinstance(conv, nn.Conv2d) and conv.stride == (1, 1):
        reading.layers[layer.name] = replace(layer, derived=False)


def padded_add(reading: Reading, node: fx.Node) -> int | None:
    module = reading.module(node)
    operands = tuple(reading.layout[n] for n in node.all_input_nodes)
    parts = tuple(
        index
        if len(positions) == module.width
        else reading.new(Place(module.width, index, positions, zeros=False))
        for index, positions in zip(operands, module.positions, strict=True)
    )
    join = Join(
        node=node,
        sources=tuple(node.all_input_nodes),
        operands=operands,
        parts=parts,
        outputs=reading.new(Union(module.width, parts)),
        place=str(node.target),
        block=block_of(reading.stages, str(node.target)),
    )
    reading.joins.append(join)
    return join.outputs
