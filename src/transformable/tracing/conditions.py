"""Conditions in a forward that depend on the sizes of tensors alone, such as ``x.shape[1] == 3``.

They are decided while the network is traced, for images of the given size."""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

__all__ = ["decided_by_sizes", "tensors_asked_for_channels"]

QUERIES = ("shape", "size", "numel", "ndim", "dim", "dtype", "device", "is_cuda", "requires_grad")
"""Attributes of a tensor that do not depend on its values."""


def decided_by_sizes(root: nn.Module, condition: fx.Node, input_shape: tuple[int, ...]) -> bool:
    """Whether the condition holds. A ValueError if it depends on more than sizes, or on the number
    of images."""
    graph = _graph_of(condition)
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        two, three = (_run(root, graph, (images, *input_shape)) for images in (2, 3))
    if two != three:
        raise ValueError("it depends on the number of images")
    return two


def _run(root: nn.Module, graph: fx.Graph, shape: tuple[int, ...]) -> bool:
    """The output of a graph for images of this shape, if it depends on sizes alone."""
    like = next(root.parameters(), torch.empty(0))
    runner = fx.Interpreter(root, garbage_collect_values=False, graph=graph)
    outcome = runner.run(torch.empty(shape, dtype=like.dtype, device=like.device))
    last = next(node for node in graph.nodes if node.op == "output")
    for query, _, _ in _queries(last, lambda node: isinstance(runner.env.get(node), Tensor)):
        if _name(query) not in QUERIES:
            raise ValueError(f"{query.name!r} reads more than a size")
    return bool(outcome)


def _graph_of(condition: fx.Node) -> fx.Graph:
    """All that a node is computed from."""
    needed, waiting = {condition}, [condition]
    while waiting:
        new = set(waiting.pop().all_input_nodes) - needed
        needed |= new
        waiting += new
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    for node in condition.graph.nodes:
        if node in needed or node.op == "placeholder":
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(copies[condition])
    return graph


def tensors_asked_for_channels(
    condition: fx.Node, shape: Callable[[fx.Node], tuple[int, ...]], axis: Callable[[fx.Node], int]
) -> Iterator[fx.Node]:
    """The tensors whose number of channels a condition depends on. `shape` returns the shape of a
    tensor, and nothing for other values, `axis` the axis of its channels."""
    for query, tensor, reader in _queries(condition, lambda node: bool(shape(node))):
        if _name(query) not in ("shape", "size", "numel"):
            continue
        key: Any = None
        if query.target == "size":
            key = query.args[1] if len(query.args) > 1 else None
        if reader is not None and reader.target is operator.getitem:
            key = reader.args[1]
        axes = range(len(shape(tensor)))
        numbers = (key.start, key.stop, key.step) if isinstance(key, slice) else (key,)
        known = key is not None and all(n is None or type(n) is int for n in numbers)
        asked = axes[key] if known else axes
        if axis(tensor) in (asked if isinstance(asked, range) else [asked]):
            yield tensor


def _queries(
    node: fx.Node, is_tensor: Callable[[fx.Node], bool], reader: fx.Node | None = None
) -> Iterator[tuple[fx.Node, fx.Node, fx.Node | None]]:
    """The nodes that read an attribute of a tensor for this node, each with that tensor and with
    the node that uses the attribute."""
    for source in node.all_input_nodes:
        if is_tensor(source):
            yield node, source, reader
        else:
            yield from _queries(source, is_tensor, node)


def _name(query: fx.Node) -> Any:
    return query.args[1] if query.target is getattr else query.target
