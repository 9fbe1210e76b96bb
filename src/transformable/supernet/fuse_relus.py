"""Relus that are done in place, where a relu is all that reads a norm or an add."""

import operator
from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import fx, nn

from ..models.resnet import Add
from .fused_ops import add_relu
from .mixed_layer import Mixed

__all__ = ["fuse_relus"]

ADDS = (operator.add, operator.iadd, torch.add)
RELUS = (F.relu, torch.relu, torch.relu_)


def fuse_relus(
    network: nn.Module,
    graph: fx.Graph,
    copies: dict[fx.Node, fx.Node],
    ends: Collection[fx.Node],
) -> None:
    """Rewrite a copy of a graph; `copies` goes from the nodes of the original to those of the copy,
    and `ends` are nodes of the original that have to stay as they are."""
    for original in list(copies):
        if original.op == "output" or not _is_relu(network, original):
            continue
        source, relu = original.all_input_nodes[0], copies[original]
        node = copies[source]
        if len(node.users) > 1 or source in ends:
            continue
        module = _module(network, node)
        if isinstance(module, Mixed) and isinstance(module.norm, nn.BatchNorm2d):
            module.rectified = True
        elif _is_add(network, node):
            node = copies[source] = _replaced(network, graph, node)
        else:
            continue
        relu.replace_all_uses_with(node)
        graph.erase_node(relu)
        copies[original] = node


def _replaced(network: nn.Module, graph: fx.Graph, add: fx.Node) -> fx.Node:
    # what a norm gives is kept by nobody, so the sum can be put in its place
    sides = sorted(add.all_input_nodes, key=lambda side: not _is_free(network, side))
    with graph.inserting_before(add):
        call = graph.call_function(add_relu, (*sides, _is_free(network, sides[0])))
    add.replace_all_uses_with(call)
    graph.erase_node(add)
    return call


def _is_free(network: nn.Module, node: fx.Node) -> bool:
    """Whether a tensor is what a layer and its norm have made, for one reader alone."""
    module = _module(network, node)
    made = isinstance(module, Mixed) and not module.rectified and module.norm is not None
    return made and len(node.users) == 1


def _is_relu(network: nn.Module, node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return type(_module(network, node)) is nn.ReLU or node.target in RELUS


def _is_add(network: nn.Module, node: fx.Node) -> bool:
    """Of two tensors, and nothing but that."""
    if len(node.all_input_nodes) != 2 or len(node.args) != 2 or node.kwargs:
        return False
    if node.op == "call_method":
        return node.target in ("add", "add_")
    return isinstance(_module(network, node), Add) or node.target in ADDS


def _module(network: nn.Module, node: fx.Node) -> nn.Module | None:
    return network.get_submodule(str(node.target)) if node.op == "call_module" else None
