"""Fuses a relu with the norm or the add before it, to be done in place, where nothing else reads
the result of that norm or add."""

import operator
from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import fx, nn

from ..models.resnet import Add
from .fused_ops import add_relu
from .mixed_layer import MixedLayer, can_fuse_relu

__all__ = ["fuse_relus"]

ADDS = (operator.add, operator.iadd, torch.add)
RELUS = (F.relu, torch.relu, torch.relu_)


def fuse_relus(
    body: fx.GraphModule, copies: dict[fx.Node, fx.Node], ends: Collection[fx.Node]
) -> None:
    """Rewrite the graph of a body. `copies` maps the nodes of the original graph to those of the
    body and is kept up to date; `ends` are original nodes whose copies must stay as they are."""
    for original in list(copies):
        if original.op == "output" or not _is_relu(body, original):
            continue
        source, relu = original.all_input_nodes[0], copies[original]
        node = copies[source]
        if len(node.users) > 1 or source in ends:
            continue
        module = _module(body, node)
        if isinstance(module, MixedLayer) and not module.behind and can_fuse_relu(module.norm):
            module.relu = True
        elif _is_add(body, node):
            node = copies[source] = _replace_add(body, node)
        else:
            continue
        relu.replace_all_uses_with(node)
        body.graph.erase_node(relu)
        copies[original] = node


def _replace_add(body: fx.GraphModule, add: fx.Node) -> fx.Node:
    # no backward pass needs the output of a norm, so the sum may overwrite it
    operands = sorted(add.all_input_nodes, key=lambda node: not _may_overwrite(body, node))
    with body.graph.inserting_before(add):
        call = body.graph.call_function(add_relu, (*operands, _may_overwrite(body, operands[0])))
    add.replace_all_uses_with(call)
    body.graph.erase_node(add)
    return call


def _may_overwrite(body: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a tensor is the output of a norm without relu and is read only once."""
    module = _module(body, node)
    if not isinstance(module, MixedLayer) or module.relu or module.behind:
        return False
    return module.norm is not None and len(node.users) == 1


def _is_relu(body: fx.GraphModule, node: fx.Node) -> bool:
    if node.op == "call_method":
        return node.target in ("relu", "relu_")
    return type(_module(body, node)) is nn.ReLU or node.target in RELUS


def _is_add(body: fx.GraphModule, node: fx.Node) -> bool:
    """Whether a node is a plain sum of two tensors."""
    if len(node.all_input_nodes) != 2 or len(node.args) != 2 or node.kwargs:
        return False
    if node.op == "call_method":
        return node.target in ("add", "add_")
    return isinstance(_module(body, node), Add) or node.target in ADDS


def _module(body: fx.GraphModule, node: fx.Node) -> nn.Module | None:
    return body.get_submodule(str(node.target)) if node.op == "call_module" else None
