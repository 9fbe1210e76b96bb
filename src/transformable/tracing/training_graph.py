"""What a network does in training mode only: it is traced in evaluation mode."""

import warnings
from collections.abc import Collection
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx, nn

from ..layers import in_mode
from .network_graph import described, trace_graph

__all__ = ["training_graph"]

# slim makes modules of these, which know of the mode
DROPOUTS = (F.dropout, F.dropout2d, F.alpha_dropout)


def training_graph(
    model: nn.Module, evaluation: fx.Graph, input_shape: tuple[int, ...], leaf: Collection[str]
) -> fx.Graph:
    """The graph of a network in training, with a warning if it differs from that in evaluation,
    which is also the result where torch.fx cannot trace the other."""
    if isinstance(model, fx.GraphModule):
        return evaluation
    try:
        graph = _trace_in_training(model, input_shape, leaf)
    except ValueError:
        graph, difference = evaluation, "torch.fx cannot trace it"
    else:
        difference = _first_difference(evaluation, graph)
    if difference:
        warnings.warn(
            f"{type(model).__name__} is not the same in training as in evaluation: {difference}. "
            "The search, and small networks whose adds are padded, use the evaluation-mode graph; "
            "name the module in leaf= (--leaf) to keep it whole",
            stacklevel=5,
        )
    return graph


def _trace_in_training(
    model: nn.Module, input_shape: tuple[int, ...], leaf: Collection[str]
) -> fx.Graph:
    before = set(vars(model))
    try:
        with in_mode(model, training=True), torch.random.fork_rng(devices=[]):
            return trace_graph(model, input_shape, leaf).graph
    finally:
        # tensors that the forward made, which torch.fx keeps in the network
        for name in set(vars(model)) - before:
            delattr(model, name)


def _first_difference(evaluation: fx.Graph, training: fx.Graph) -> str:
    """Where the second graph begins to differ from the first; empty if it does not."""
    operations = zip_longest(_operations(evaluation), _operations(training))
    nodes = zip_longest(evaluation.nodes, training.nodes)
    for (there, here), (one, two) in zip(nodes, operations, strict=True):
        if one != two:
            node = there if here is None or here.op == "output" else here
            return f"it differs from {described(node)} on"
    return ""


def _operations(graph: fx.Graph) -> list[Any]:
    """What each node calls, and with what; nodes by their number."""
    number = {node: i for i, node in enumerate(graph.nodes)}
    operations = []
    for node in graph.nodes:
        given: Any = (node.args, node.kwargs)
        if node.target in DROPOUTS:
            given = node.all_input_nodes
        given = fx.node.map_aggregate(given, lambda a: number.get(a, a))
        operations.append((node.op, node.target, repr(given)))
    return operations
