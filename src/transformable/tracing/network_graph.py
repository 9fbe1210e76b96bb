"""The torch.fx graph of a network: its nodes, and the modules and lines that they come from."""

import inspect
import operator
import traceback
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from ..layers import PaddedAdd
from ..spelling import nearest
from ..user_code import first_line, own_line
from .conditions import decided_by_sizes

__all__ = [
    "ModuleCall",
    "NodeCall",
    "TracedGraph",
    "check_not_wrapped",
    "described",
    "inside",
    "path_of",
    "trace_graph",
]


@dataclass(frozen=True)
class ModuleCall:
    """A call of a module while its network was traced, with nodes for tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any


@dataclass(frozen=True)
class TracedGraph:
    """The graph of a network, and what tracing it has shown of its modules."""

    graph: fx.Graph
    opaque: dict[str, str] = field(default_factory=dict)
    """For each module that could not be traced, the reason."""
    calls: dict[str, ModuleCall] = field(default_factory=dict)
    """The last call of each module that was traced into."""
    conditions: tuple[fx.Node, ...] = ()
    """The conditions that were decided by the sizes of tensors."""


class _Proxy(fx.Proxy):
    """Records that `x += y` changes x; torch.fx reads it as `x = x + y`."""

    def __iadd__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.iadd, other)

    def __isub__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.isub, other)

    def __imul__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.imul, other)

    def __itruediv__(self, other: Any) -> fx.Proxy:
        return self._in_place(operator.itruediv, other)

    def _in_place(self, target: Any, other: Any) -> fx.Proxy:
        name = target.__name__.removeprefix("i")
        return self.tracer.create_proxy("call_function", target, (self, other), {}, name)


class Tracer(fx.Tracer):
    """Traces into all blocks but those of `leaf`; a module that cannot be traced stays one opaque
    node."""

    def __init__(self, leaf: Collection[str], input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.leaf, self.input_shape = leaf, input_shape
        self.conditions: list[fx.Node] = []
        self.deciding = False
        self.opaque: dict[str, str] = {}
        self.calls: dict[str, ModuleCall] = {}

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        if module_qualified_name in self.leaf:
            return True
        # many networks write an identity shortcut as an empty Sequential: keep its node
        empty = isinstance(m, nn.Sequential) and len(m) == 0
        whole = isinstance(m, (PaddedAdd, _ConvNd, nn.Linear, _NormBase, nn.GroupNorm))
        leaf = empty or whole or _has_two_modes(m) or _has_numbers_by_channel(m)
        return leaf or super().is_leaf_module(m, module_qualified_name)

    def create_node(self, *args: Any, **kwargs: Any) -> fx.Node:
        node = super().create_node(*args, **kwargs)
        node.meta["line"] = own_line(_frames_of_forward())
        return node

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def to_bool(self, obj: fx.Proxy) -> bool:
        self.deciding = True
        try:
            decision = decided_by_sizes(self.root, obj.node, self.input_shape)
        except Exception:  # what runs is a user's code, on tensors without numbers
            return super().to_bool(obj)
        finally:
            self.deciding = False
        self.conditions.append(obj.node)
        return decision

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        return attr_val if self.deciding else super().getattr(attr, attr_val, parameter_proxy_cache)

    def call_module(
        self, m: nn.Module, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self.deciding:
            return forward(*args, **kwargs)
        # an attribute of a proxy becomes a node only when it is used: do that outside of `m`
        given_args, given_kwargs = _nodes((args, kwargs))
        before, path = set(self.graph.nodes), self.path_of_module(m)
        stack = dict(self.module_stack)
        try:
            result = super().call_module(m, forward, args, kwargs)
        except Exception as error:  # a user's forward may raise anything when given a proxy
            self.module_stack.clear()
            self.module_stack.update(stack)
            for node in reversed([n for n in self.graph.nodes if n not in before]):
                self.graph.erase_node(node)
            self.conditions = [n for n in self.conditions if n in before]
            self.opaque[path] = first_line(error)
            return self.create_proxy("call_module", path, args, kwargs)
        self.calls[path] = ModuleCall(given_args, given_kwargs, _nodes(result))
        return result


def _frames_of_forward() -> Iterator[tuple[FrameType, int]]:
    """The frames of the forward that is being traced, innermost first."""
    for frame, line in traceback.walk_stack(None):
        if frame.f_code is trace_graph.__code__:
            return
        yield frame, line


def _nodes(value: Any) -> Any:
    return fx.node.map_aggregate(value, lambda a: a.node if isinstance(a, fx.Proxy) else a)


def _has_numbers_by_channel(module: nn.Module) -> bool:
    """Whether it may be a custom norm: all its parameters and buffers have one number for each of n
    channels."""
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.numel() > 1]
    own = {*module.parameters(recurse=False), *module.buffers(recurse=False)}
    if not own.intersection(tensors) or len({t.numel() for t in tensors}) > 1:
        return False
    vectors = all(max(t.shape) == t.numel() for t in tensors)
    return vectors and len(inspect.signature(module.forward).parameters) == 1


def _has_two_modes(module: nn.Module) -> bool:
    """Whether it is like stochastic depth: traced in evaluation mode, it would stay off."""
    if any(True for _ in module.parameters()) or any(True for _ in module.children()):
        return False
    try:
        return "training" in inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return False


def check_not_wrapped(model: nn.Module) -> None:
    """Raise a ValueError if this is not a network but a wrapper around one."""
    parallel = nn.DataParallel, nn.parallel.DistributedDataParallel
    inner = "module" if isinstance(model, parallel) else "_orig_mod"  # that of torch.compile
    if isinstance(model, parallel) or hasattr(model, inner):
        kind = type(model).__name__
        raise ValueError(f"the model is {kind}, around a network; give the network: net.{inner}")


def trace_graph(
    model: nn.Module, input_shape: tuple[int, ...], leaf: Collection[str] = ()
) -> TracedGraph:
    """The graph of the network for images of this shape; the modules called in `leaf` are kept
    whole."""
    check_not_wrapped(model)
    modules = dict(model.named_modules())
    for name, module in modules.items():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(
                f"{name or 'the network'!r} is a scripted module, of which torch cannot make "
                "a copy that learns; give the module that it was made from"
            )
    names = [name for name in modules if name]
    for name in leaf:
        if name not in names:
            raise ValueError(f"the network has no module {name!r} to keep; {nearest(name, names)}")
    if isinstance(model, fx.GraphModule):
        # already traced; its nodes still know the blocks that they came from
        graph = fx.Graph()
        graph.output(graph.graph_copy(model.graph, {}))
        return TracedGraph(graph)
    tracer = Tracer(leaf, input_shape)
    try:
        # with the default values of the arguments, `if mask is not None` can be decided
        _images, *others = inspect.signature(model.forward).parameters.values()
        defaults = {p.name: p.default for p in others if p.default is not p.empty}
        graph = tracer.trace(model, defaults)
    except Exception as error:
        raise ValueError(
            f"torch.fx cannot trace {type(model).__name__}: {first_line(error)}; move what depends "
            "on the data into a submodule of its own, which then keeps its width"
        ) from error
    return TracedGraph(graph, tracer.opaque, tracer.calls, tuple(tracer.conditions))


class NodeCall(nn.Module):
    """A function or method of one tensor, with the other arguments that it has in a node."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__()
        self.node = [node]

    def __deepcopy__(self, _: Any) -> "NodeCall":
        return NodeCall(*self.node)  # a copy of the node would be one of the whole graph

    def forward(self, x: Tensor) -> Any:
        [node] = self.node
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda _: x)
        if node.op == "call_method":
            return getattr(x, str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def path_of(node: fx.Node) -> str:
    """The module whose forward made this node; for a layer, the layer itself."""
    stack = node.meta.get("nn_module_stack")
    return next(reversed(stack)).split("@")[0] if stack else ""


def inside(node: fx.Node, path: str) -> bool:
    """Whether the module at `path`, or a part of it, made this node."""
    return f"{path_of(node)}.".startswith(f"{path}.")


def described(node: fx.Node) -> str:
    """The name of what a node calls, its module, and the line of the code that calls it."""
    named = node.op in ("call_module", "call_method")
    name = repr(str(node.target) if named else node.name)
    path = path_of(node)
    inside_of = f" in {path!r}" if path and path != str(node.target) else ""
    line = node.meta.get("line")
    return f"{name}{inside_of}" + (f" ({line})" if line else "")
