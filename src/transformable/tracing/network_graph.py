"""The torch.fx graph of a network: its nodes, the shapes of their outputs, its stages."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd
from torch.utils.flop_counter import FlopCounterMode

from ..layers import PaddedAdd

__all__ = [
    "Call",
    "Stage",
    "find_stages",
    "in_mode",
    "inside",
    "path_of",
    "run_once",
    "trace_graph",
]


class Tracer(fx.Tracer):
    """Traces into all blocks; a module that cannot be traced stays one opaque node."""

    def __init__(self) -> None:
        super().__init__()
        self.opaque: dict[str, str] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        # many networks write an identity shortcut as an empty Sequential: keep its node
        empty = isinstance(m, nn.Sequential) and len(m) == 0
        whole = isinstance(m, (PaddedAdd, _ConvNd, nn.Linear, _NormBase, nn.GroupNorm))
        leaf = empty or whole or _has_two_modes(m) or _has_numbers_by_channel(m)
        return leaf or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        # an attribute of a proxy becomes a node only when it is used: do that outside of `m`
        fx.node.map_aggregate((args, kwargs), lambda a: a.node if isinstance(a, fx.Proxy) else a)
        before, stack = set(self.graph.nodes), dict(self.module_stack)
        try:
            return super().call_module(m, forward, args, kwargs)
        except Exception as error:  # a user's forward may raise anything when given a proxy
            path = self.path_of_module(m)
            self.module_stack.clear()
            self.module_stack.update(stack)
            for node in reversed([n for n in self.graph.nodes if n not in before]):
                self.graph.erase_node(node)
            self.opaque[path] = str(error).split("\n")[0]
            return self.create_proxy("call_module", path, args, kwargs)


def _has_numbers_by_channel(module: nn.Module) -> bool:
    """Whether it may be a norm of a class of its own: all it has is one number for each of n
    channels, or several such."""
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.numel() > 1]
    own = {*module.parameters(recurse=False), *module.buffers(recurse=False)}
    if not own.intersection(tensors) or len({t.numel() for t in tensors}) > 1:
        return False
    vectors = all(max(t.shape) == t.numel() for t in tensors)
    return vectors and len(inspect.signature(module.forward).parameters) == 1


def _has_two_modes(module: nn.Module) -> bool:
    """Whether it is something like stochastic depth: traced in evaluation, it would stay off."""
    if any(True for _ in module.parameters()) or any(True for _ in module.children()):
        return False
    try:
        return "training" in inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return False


@contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """The network in training or evaluation mode, and each module back in its mode afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def trace_graph(model: nn.Module) -> tuple[fx.Graph, dict[str, str]]:
    """The graph of the network, and for each module that could not be traced the reason."""
    if isinstance(model, fx.GraphModule):
        # already traced; its nodes still know the blocks that they came from
        graph = fx.Graph()
        graph.output(graph.graph_copy(model.graph, {}))
        return graph, {}
    tracer = Tracer()
    try:
        # with the default values of the arguments, `if mask is not None` can be decided
        parameters = inspect.signature(model.forward).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        graph = tracer.trace(model, defaults)
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f"torch.fx cannot trace {type(model).__name__}: {reason}; move what depends on the "
            "data into a submodule of its own, which then keeps its width"
        ) from error
    return graph, tracer.opaque


class Call(nn.Module):
    """A function or method of one tensor, with the other arguments that it has in a node."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__()
        self.node = [node]

    def forward(self, x: Tensor) -> Any:
        [node] = self.node
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda _: x)
        if node.op == "call_method":
            return getattr(x, str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


@dataclass(frozen=True)
class NodeOutput:
    """The shape of a node's output (empty if that is no tensor), and its MACs for one image.

    If it is several tensors, `parts` are their shapes.
    """

    shape: tuple[int, ...]
    macs: int
    parts: tuple[tuple[int, ...], ...] = ()


class _Runner(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.outputs: dict[fx.Node, NodeOutput] = {}

    def run_node(self, n: fx.Node) -> Any:
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        several = value if isinstance(value, (list, tuple)) else ()
        parts = tuple(tuple(part.shape) for part in several if isinstance(part, Tensor))
        # two operations per multiply-accumulate, two images
        self.outputs[n] = NodeOutput(shape, counter.get_total_flops() // 4, parts)
        return value


def run_once(
    model: nn.Module, graph: fx.Graph, input_shape: tuple[int, ...]
) -> dict[fx.Node, NodeOutput]:
    """Run the graph on two images, so that the batch cannot be taken for an axis of size 1."""
    parameter = next(model.parameters(), torch.empty(0))
    runner = _Runner(fx.GraphModule(model, graph))
    try:
        images = torch.zeros(2, *input_shape, dtype=parameter.dtype, device=parameter.device)
        with torch.no_grad():
            runner.run(images)
    except Exception as error:
        reason = str(error).split("\n")[0]
        message = f"the network does not take an input of {input_shape}: {reason}"
        raise ValueError(message) from error
    return runner.outputs


def path_of(node: fx.Node) -> str:
    """The module whose forward made this node; for a layer, the layer itself."""
    stack = node.meta.get("nn_module_stack")
    return next(reversed(stack)).split("@")[0] if stack else ""


def inside(node: fx.Node, path: str) -> bool:
    """Whether the module at `path`, or a part of it, made this node."""
    return f"{path_of(node)}.".startswith(f"{path}.")


@dataclass(frozen=True)
class Stage:
    """A container of blocks in sequence: the path of each block, and the node it ends with."""

    name: str
    blocks: tuple[str, ...]
    ends: tuple[fx.Node, ...]


def find_stages(
    model: nn.Module, graph: fx.Graph, outputs: Mapping[fx.Node, NodeOutput]
) -> dict[str, Stage]:
    """The containers of two or more blocks of which all but the first keep the tensor shape."""
    stages: dict[str, Stage] = {}
    # inner containers first: of nested ones the innermost is the stage
    for name, module in reversed(list(model.named_modules())):
        if any(other.startswith(f"{name}.") or not name for other in stages):
            continue
        if stage := _stage(name, module, graph, outputs):
            stages[name] = stage
    order = {node: i for i, node in enumerate(graph.nodes)}
    return dict(sorted(stages.items(), key=lambda item: order[item[1].ends[0]]))


def _stage(
    name: str, module: nn.Module, graph: fx.Graph, outputs: Mapping[fx.Node, NodeOutput]
) -> Stage | None:
    children = dict(module.named_children())
    if len(children) < 2 or not all(child.isdigit() for child in children):
        return None
    blocks: list[str] = []
    ends: list[fx.Node] = []
    for child, block in children.items():
        path = f"{name}.{child}" if name else child
        nodes = [node for node in graph.nodes if inside(node, path)]
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
        if ends:
            [source] = sources
            if source is not ends[-1] or any(not inside(user, path) for user in source.users):
                return None
            if outputs[source].shape != outputs[ends_here[0]].shape:
                return None
        blocks.append(path)
        ends.append(ends_here[0])
    return Stage(name, tuple(blocks), tuple(ends))
