"""Operations that move, merge or split the axes of a tensor, including its channels."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from torch import fx

from .cuts import part
from .layouts import Concat, Repeated
from .reader import NetworkReader, Split

__all__ = [
    "argument",
    "read_channel_shuffle",
    "read_index",
    "read_permute",
    "read_reduction",
    "read_reshape",
    "read_softmax",
    "read_split",
    "read_stack",
]


def argument(node: fx.Node, position: int, name: str, default: Any = None) -> Any:
    """An argument of the call that a node is."""
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def read_permute(reader: NetworkReader, node: fx.Node) -> int | None:
    [source] = node.all_input_nodes
    inputs, axes = reader.layout.get(source), len(reader.shape(source))
    if inputs is None:
        return reader.unknown(node)
    given = [axis % axes for axis in _numbers(node)]
    order = list(range(axes))
    if _name(node) == "permute":
        order = given
    elif len(given) == 2:  # transpose
        a, b = given
        order[a], order[b] = b, a
    if sorted(order) != list(range(axes)) or order[0] != 0:
        return reader.unknown(node)
    reader.axis[node] = order.index(reader.axis_of(source))
    return inputs


def read_stack(reader: NetworkReader, node: fx.Node) -> int | None:
    """Tensors of one layout stacked along a new axis."""
    tensors = argument(node, 0, "tensors")
    nodes = list(tensors) if isinstance(tensors, (list, tuple)) else []
    dim = argument(node, 1, "dim", 0) % len(reader.shape(node))
    axes = {reader.axis_of(n) for n in nodes}
    if dim == 0 or len(axes) != 1 or any(n not in reader.layout for n in nodes):
        return reader.unknown(node)
    [axis] = axes
    outputs = reader.layout[nodes[0]]
    for other in nodes[1:]:
        reason = f"it is stacked with others in {node.name!r}"
        outputs = reader.ties.tie(outputs, reader.layout[other], reason)
    reader.axis[node] = axis + (dim <= axis)
    return outputs


def read_reduction(reader: NetworkReader, node: fx.Node) -> int | None:
    """A mean, sum or maximum over other axes than the channels."""
    [source, *others] = reader.tensors(node)
    dims = argument(node, 1, "dim")
    axes, axis = len(reader.shape(source)), reader.axis_of(source)
    dims = dims if isinstance(dims, (list, tuple)) else [dims]
    if others or any(not isinstance(d, int) or d % axes in (0, axis) for d in dims):
        return reader.unknown(node)
    if not argument(node, 2, "keepdim", False):
        axis -= sum(d % axes < axis for d in dims)
    reader.axis[node] = axis
    return reader.layout.get(source)


def read_softmax(reader: NetworkReader, node: fx.Node) -> int | None:
    """Over another axis than the channels."""
    [source, *others] = reader.tensors(node)
    dim = reader.module(node).dim if node.op == "call_module" else argument(node, 1, "dim")
    axis = reader.axis_of(source)
    if isinstance(dim, int) and dim % len(reader.shape(source)) == axis:
        return reader.unknown(node, f"{reader.describe(node)} is over the channels")
    if others or not isinstance(dim, int) or dim % len(reader.shape(source)) == 0:
        return reader.unknown(node)
    reader.axis[node] = axis
    return reader.layout.get(source)


def read_reshape(reader: NetworkReader, node: fx.Node) -> int | None:
    source = node.all_input_nodes[0]
    inputs = reader.layout.get(source)
    before, after = reader.shape(source), reader.shape(node)
    if inputs is None or len(after) < 2 or after[0] != before[0]:
        return reader.unknown(node)
    ins, outs = _group_of_axis(before, after, reader.axis_of(source))
    given = _given_sizes(node, len(after))
    if not outs or len(given) != len(after):
        return reader.unknown(node)
    if len(outs) > 1:
        return _read_unflattened(reader, node, inputs, outs, given)
    [axis] = outs
    if type(given[axis]) is int and given[axis] > 0:
        # a size in the code is right only for the original width
        return reader.unknown(node, f"{node.name!r} hard-codes the size {given[axis]}")
    channels = ins.index(reader.axis_of(source))
    first, times = (prod(before[i] for i in each) for each in (ins[:channels], ins[channels + 1 :]))
    outputs = inputs
    if times > 1:
        outputs = reader.new(Repeated(reader.size(inputs) * times, inputs, times))
    if first > 1:
        outputs = reader.new(Concat(after[axis], (outputs,) * first))
    reader.axis[node] = axis
    return _tied_to_given_size(reader, node, inputs, outputs, given[axis])


def _read_unflattened(
    reader: NetworkReader, node: fx.Node, inputs: int, outs: Sequence[int], given: Sequence[Any]
) -> int | None:
    """Channels as several axes, all but one of which have sizes written into the code: these sizes
    stay, and so all parts of the channels become narrower together."""
    after = reader.shape(node)
    free = [axis for axis in outs if not (type(given[axis]) is int and given[axis] > 0)]
    free = [axis for axis in free if after[axis] > 1] or free[-1:]
    if len(free) != 1 or free[0] != outs[-1]:
        return reader.unknown(node)
    [axis] = free
    count, size = prod(after[i] for i in outs[:-1]), after[axis]
    reason = f"{node.name!r} splits its channels into {count}"
    parts = [part(reader.ties, inputs, i * size, (i + 1) * size, reason) for i in range(count)]
    outputs = parts[0]
    for other in parts[1:]:
        outputs = reader.ties.tie(outputs, other, reason)
    reader.axis[node] = axis
    return _tied_to_given_size(reader, node, inputs, outputs, given[axis])


def _group_of_axis(
    before: Sequence[int], after: Sequence[int], axis: int
) -> tuple[list[int], list[int]]:
    """The smallest run of axes that a reshape turns into a run of others, with this axis in it.

    >>> _group_of_axis((2, 6, 4, 4), (2, 3, 2, 16), 1)
    ([1], [1, 2])
    """
    i = j = 0
    while i < len(before):
        ins, outs = [i], [j] if j < len(after) else []
        while (a := prod(before[k] for k in ins)) != (b := prod(after[k] for k in outs)):
            if a < b:
                ins.append(ins[-1] + 1)
            else:
                outs.append(outs[-1] + 1 if outs else j)
        i, j = i + len(ins), j + len(outs)
        if axis in ins:
            return ins, outs
    raise AssertionError(axis)


def _given_sizes(node: fx.Node, axes: int) -> list[Any]:
    """The size of each axis as it is in the code; None where it is not."""
    if _name(node) in ("view", "reshape"):
        sizes = _flat(node.args[1:])
        # the shape of another tensor
        return sizes * axes if len(sizes) == 1 and isinstance(sizes[0], fx.Node) else sizes
    if _name(node) == "unflatten" and isinstance(dim := argument(node, 1, "dim"), int):
        sizes = _flat((argument(node, 2, "sizes"),))
        dim = dim if dim >= 0 else dim + axes - len(sizes) + 1
        return [*[None] * dim, *sizes, *[None] * (axes - dim - len(sizes))]
    return [None] * axes


def _tied_to_given_size(
    reader: NetworkReader, node: fx.Node, inputs: int, outputs: int, given: Any
) -> int | None:
    """x.view(b, c, 1, 1) has the channels of the tensor that c was read from."""
    reason = f"{node.name!r} reads the number of channels from another tensor"
    for tensor in reader.origins(given) if isinstance(given, fx.Node) else ():
        other = reader.layout[tensor]
        if reader.ties.count(other) == reader.ties.count(outputs):
            continue  # the same number, whatever the widths are
        if reader.size(other) == reader.size(outputs):
            outputs = reader.ties.tie(outputs, other, reason)
        elif tensor is not node.all_input_nodes[0]:
            # a share of it
            if reader.size(other) != reader.size(inputs):
                return reader.unknown(node, reason)
            reader.ties.tie(inputs, other, reason)
    return outputs


def read_channel_shuffle(reader: NetworkReader, node: fx.Node) -> int | None:
    """A channel shuffle interleaves the groups, so they become narrower together."""
    [source] = node.all_input_nodes
    inputs, groups = reader.layout[source], reader.module(node).groups
    size = reader.size(inputs) // groups
    reason = f"{reader.describe(node)} splits its channels into {groups}"
    first, *others = (
        part(reader.ties, inputs, i * size, (i + 1) * size, reason) for i in range(groups)
    )
    for other in others:
        first = reader.ties.tie(first, other, reason)
    return reader.new(Repeated(size * groups, first, groups))


def read_split(reader: NetworkReader, node: fx.Node) -> None:
    """A tensor as several tensors."""
    source = node.all_input_nodes[0]
    inputs, axis = reader.layout.get(source), reader.axis_of(source)
    dim = argument(node, 2, "dim", 0)
    if inputs is None or len(reader.tensors(node)) > 1 or not isinstance(dim, int):
        reader.unknown(node)
        return
    shapes = reader.outputs[node].parts
    if dim % len(reader.shape(source)) != axis:
        reader.pieces[node] = (inputs,) * len(shapes)
    else:
        ends = [0]
        for shape in shapes:
            ends.append(ends[-1] + shape[axis])
        reader.pieces[node] = _parts(reader, node, inputs, ends)
        reader.splits.append(Split(node=node, axis=axis, parts=reader.pieces[node]))
    reader.axis[node] = axis


def read_index(reader: NetworkReader, node: fx.Node) -> int | None:
    source, keys = node.args
    if isinstance(source, fx.Node) and source in reader.pieces and isinstance(keys, int):
        reader.axis[node] = reader.axis_of(source)
        return reader.pieces[source][keys]
    if not isinstance(source, fx.Node) or source not in reader.layout:
        shape = reader.shape(node)
        return reader.unknown(node) if len(shape) > 1 else None
    keys = keys if isinstance(keys, tuple) else (keys,)
    axis, place, moved = reader.axis_of(source), 0, 0
    cut = slice(None)
    for key in keys:
        if key is None:
            moved += place <= axis
            continue
        if not isinstance(key, slice) or (place == 0 and key != slice(None)):
            return reader.unknown(node)
        if place == axis:
            cut = key
        place += 1
    outputs: int | None = reader.layout[source]
    if cut != slice(None):
        outputs = _read_slice(reader, node, cut)
    reader.axis[node] = axis + moved
    return outputs


def _read_slice(reader: NetworkReader, node: fx.Node, cut: slice) -> int | None:
    """Some of the channels, from one number to another."""
    source = node.all_input_nodes[0]
    inputs, size = reader.layout[source], reader.shape(source)[reader.axis_of(source)]
    edges = cut.start, cut.stop, cut.step
    if any(type(edge) is not int and edge is not None for edge in edges) or edges[2] not in (
        1,
        None,
    ):
        return reader.unknown(node)
    start, stop, _ = cut.indices(size)
    if (start, stop) == (0, size) and edges[0] in (0, None):
        return inputs  # of fewer channels it takes all as well
    if start >= stop:
        return reader.unknown(node)
    ends = sorted({0, start, stop, size})
    parts = _parts(reader, node, inputs, ends)
    own = ends.index(start)
    axis = reader.axis_of(source)
    reader.splits.append(Split(node=node, axis=axis, parts=parts, own=own))
    return parts[own]


def _parts(
    reader: NetworkReader, node: fx.Node, inputs: int, ends: Sequence[int]
) -> tuple[int, ...]:
    reason = f"{node.name!r} splits its channels"
    return tuple(part(reader.ties, inputs, *pair, reason) for pair in pairwise(ends))


def _name(node: fx.Node) -> str:
    """The name of a method or function."""
    return str(getattr(node.target, "__name__", node.target))


def _numbers(node: fx.Node) -> list[int]:
    """The numbers after the tensor argument, as arguments, as a list or by name."""
    values = _flat((*node.args[1:], *node.kwargs.values()))
    return [value for value in values if isinstance(value, int)]


def _flat(values: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for value in values:
        flat += value if isinstance(value, (list, tuple)) else [value]
    return flat
