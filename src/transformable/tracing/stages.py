"""Stages: containers of blocks in sequence, whose last blocks may be dropped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import fx, nn
from torch.nn.modules.conv import _ConvNd

from .network_graph import TracedGraph, inside
from .run_graph import NodeOutput

__all__ = ["Stage", "find_stages"]

Form = Literal["sequence", "list", "graph"]


@dataclass(frozen=True)
class Stage:
    """A container of blocks in sequence: the path of each block, and the node it ends with."""

    name: str
    blocks: tuple[str, ...]
    ends: tuple[fx.Node, ...]
    form: Form
    """What a block can be dropped from: the `sequence` that the container is called as, the `list`
    of blocks of which each takes a tensor first and returns one, or only the `graph`."""


def find_stages(
    model: nn.Module, traced: TracedGraph, outputs: Mapping[fx.Node, NodeOutput]
) -> dict[str, Stage]:
    """The containers of two or more blocks of which all but the first keep the tensor shape."""
    stages: dict[str, Stage] = {}
    # inner containers first: of nested ones the innermost is the stage
    for name, module in reversed(list(model.named_modules())):
        if any(other.startswith(f"{name}.") or not name for other in stages):
            continue
        if stage := _stage(name, module, traced, outputs):
            stages[name] = stage
    order = {node: i for i, node in enumerate(traced.graph.nodes)}
    return dict(sorted(stages.items(), key=lambda item: order[item[1].ends[0]]))


def _stage(
    name: str, module: nn.Module, traced: TracedGraph, outputs: Mapping[fx.Node, NodeOutput]
) -> Stage | None:
    children = dict(module.named_children())
    if len(children) < 2 or not all(child.isdigit() for child in children):
        return None
    blocks: list[str] = []
    ends: list[fx.Node] = []
    called_by_tensor = True
    for child, block in children.items():
        path = f"{name}.{child}" if name else child
        nodes = [node for node in traced.graph.nodes if inside(node, path)]
        ends_here = [n for n in nodes if any(not inside(user, path) for user in n.users)]
        sources = {s for n in nodes for s in n.all_input_nodes if not inside(s, path)}
        composite = any(True for _ in block.children())
        if not composite or not any(isinstance(m, _ConvNd) for m in block.modules()):
            return None
        # the key of a module that is called again ends in @1, @2, ...; a relu of the block may be
        again = {key for n in nodes for key in n.meta.get("nn_module_stack", {}) if "@" in key}
        called_twice = any(f"{path}.".startswith(f"{key.split('@')[0]}.") for key in again)
        if len(ends_here) != 1 or len(sources) != 1 or called_twice:
            return None
        [source] = sources
        if ends:
            if source is not ends[-1] or any(not inside(user, path) for user in source.users):
                return None
            if outputs[source].shape != outputs[ends_here[0]].shape:
                return None
        blocks.append(path)
        ends.append(ends_here[0])
        called_by_tensor &= _takes_and_gives_a_tensor(path, source, traced, outputs)
    form: Form = "list" if called_by_tensor else "graph"
    if type(module).forward is nn.Sequential.forward and name in traced.calls:
        form = "sequence"
    return Stage(name, tuple(blocks), tuple(ends), form)


def _takes_and_gives_a_tensor(
    path: str, source: fx.Node, traced: TracedGraph, outputs: Mapping[fx.Node, NodeOutput]
) -> bool:
    """Whether the source is the first argument of a block that returns only a tensor."""
    call = traced.calls.get(path)
    if not call or not call.args or not isinstance(call.result, fx.Node):
        return False
    first = call.args[0]
    # the same tensor may have another name, see `redirect_overwritten`
    return isinstance(first, fx.Node) and outputs[first].view == outputs[source].view
