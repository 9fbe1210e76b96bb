"""The state of reading a network: what is known so far about each tensor in it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

from torch import fx, nn

from ..layers import in_mode
from ..resizing import GROUPED
from .cuts import add_cut_layer
from .layouts import FixedWidth, Layout
from .network_graph import NodeCall, path_of, trace_graph
from .run_graph import redirect_overwritten, run_once
from .stages import find_stages
from .training_graph import training_graph
from .width_ties import WidthTies

__all__ = ["Block", "Layer", "NetworkReader", "ResidualAdd", "Split"]

Block = tuple[str, int] | None
"""A stage and the index of a block in it; None outside of all stages."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A module with parameters, and the layouts of its input and output.

    A module that cannot change is `constant`, with its measured MACs and parameters. A layer that
    is `original_only` is in the original network but in no network derived from it.
    """

    name: str
    kind: str  # conv, transposed conv, depthwise conv, grouped conv, linear, norm or constant
    inputs: int
    outputs: int
    kernel: tuple[int, ...] = (1, 1)
    size: tuple[int, ...] = (1, 1)
    """Of the output; of the input of a transposed convolution, which it goes through."""
    group_inputs: int = 1
    """The inputs of each group of a grouped convolution."""
    bias: bool = False
    by_output: int = 0
    """Parameters of each output channel besides the weights of a matrix: biases, scales."""
    standardised: bool = False
    """Whether each filter is standardised over the inputs: without some it is another one."""
    block: Block = None
    original_only: bool = False
    macs: int = 0
    params: int = 0
    order: int = 0

    @cached_property
    def area(self) -> int:
        return prod(self.kernel)

    @cached_property
    def pixels(self) -> int:
        return prod(self.size)


@dataclass(frozen=True, kw_only=True)
class ResidualAdd:
    """An add of tensors whose widths may differ in a shape.

    `operands` are the layouts of the tensors added; `parts` are the same without the zeros of the
    network's own padding, and `sources` the nodes that give them. If `shortcut` is the index of an
    operand, the layers of the `projection` give it the layout of the other; else the sum is padded
    to the union of the parts. `module` is the path of a module that can be replaced to do so.
    """

    node: fx.Node
    sources: tuple[fx.Node, ...]
    operands: tuple[int, ...]
    parts: tuple[int, ...]
    outputs: int
    module: str | None
    block: Block
    shortcut: int | None = None
    projection: tuple[Layer, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Split:
    """A node that splits the channels of a tensor, at numbers that are written into the code.

    `parts` are the layouts of all parts in order. The node returns all of them, or only one if
    `own` is the index of that.
    """

    node: fx.Node
    axis: int
    parts: tuple[int, ...]
    own: int | None = None


class NetworkReader:
    """A network, its graph, and the layouts found so far.

    `layout` has the layout of each node, `axis` which axis of the tensor has these channels if it
    is not the second; `maker` the node of each layer with a width of its own, `depth` how many such
    layers come before a node, `fixed` why a module keeps its size.
    """

    def __init__(
        self,
        model: nn.Module,
        input_shape: tuple[int, ...],
        residual: str,
        leaf: Collection[str] = (),
    ) -> None:
        self.model, self.leaf = model, leaf
        self.residual = residual
        self.modules = dict(model.named_modules())
        with in_mode(model, training=False):
            traced = trace_graph(model, input_shape, leaf)
            self.outputs = run_once(model, traced.graph, input_shape)
        self._check_leaf(traced.graph)
        self.training_graph = training_graph(model, traced.graph, input_shape, leaf)
        redirect_overwritten(traced.graph, self.outputs)
        self.graph, self.opaque = traced.graph, traced.opaque
        self.conditions = traced.conditions
        self.stages = find_stages(model, traced, self.outputs)
        self.order = {node: i for i, node in enumerate(self.graph.nodes)}
        self.shared = self._shared_parameters()
        self.probed: dict[tuple[fx.Node, Any], bool] = {}
        self.start({})

    def start(self, cuts: Mapping[str, frozenset[int]]) -> None:
        """Begin to read; again, once it is known between which outputs layers are cut."""
        self.ties = WidthTies(cuts)
        self.layouts = self.ties.layouts
        self.layout: dict[fx.Node, int] = {}
        self.axis: dict[fx.Node, int] = {}
        self.pieces: dict[fx.Node, tuple[int, ...]] = {}
        self.splits: list[Split] = []
        self.layers: dict[str, Layer] = {}
        self.adds: list[ResidualAdd] = []
        self.maker: dict[str, fx.Node] = {}
        self.fixed: dict[str, str] = {}
        self.ancestors: dict[fx.Node, set[fx.Node]] = {}
        self.depth: dict[fx.Node, int] = {}
        self.counted: set[nn.Parameter] = set()

    def _check_leaf(self, graph: fx.Graph) -> None:
        called = {str(node.target) for node in graph.nodes if node.op == "call_module"}
        for name in self.leaf:
            if name not in called:
                raise ValueError(
                    f"the module {name!r} is never called as a whole, so it cannot be kept whole: "
                    "name modules inside of it"
                )

    def _shared_parameters(self) -> set[nn.Parameter]:
        """The parameters of modules that are called more than once, or that two modules share, or
        that a forward reads itself."""
        owners: Counter[nn.Parameter] = Counter()
        for node in self.graph.nodes:
            if node.op == "call_module":
                owners.update(set(self.module(node).parameters()))
            elif node.op == "get_attr":
                path, _, name = str(node.target).rpartition(".")
                owners.update([getattr(self.model.get_submodule(path), name)])
        return {parameter for parameter, count in owners.items() if count > 1}

    def block_of(self, path: str) -> Block:
        """The block that contains a module or parameter."""
        for stage in self.stages.values():
            for i, block in enumerate(stage.blocks):
                if f"{path}.".startswith(f"{block}."):
                    return stage.name, i
        return None

    def origins(self, node: fx.Node) -> set[fx.Node]:
        """The tensors that a number, such as a size, was computed from."""
        if node in self.layout:
            return {node}
        return set().union(*(self.origins(source) for source in node.all_input_nodes))

    def new(self, layout: Layout) -> int:
        """Add a layout, and return its index."""
        return self.ties.new(layout)

    def size(self, index: int) -> int:
        return self.layouts[index].size

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """The shape of the node's output; empty if that is no tensor."""
        return self.outputs[node].shape

    def tensors(self, node: fx.Node) -> list[fx.Node]:
        """The inputs of the node that are tensors."""
        return [source for source in node.all_input_nodes if self.shape(source)]

    def axis_of(self, node: fx.Node) -> int:
        """The axis of the node's output that has the channels of its layout."""
        return self.axis.get(node, 1)

    def channels(self, node: fx.Node, axis: int) -> int | None:
        """The layout of the node's output along an axis; None if it has its channels elsewhere."""
        index = self.layout.get(node)
        if index is None or self.axis_of(node) == axis:
            return index
        if isinstance(self.layouts[index], FixedWidth):  # then all its axes are fixed
            return self.new(FixedWidth(self.shape(node)[axis]))
        return None

    def module(self, node: fx.Node) -> Any:
        return self.modules[str(node.target)]

    def describe(self, node: fx.Node) -> str:
        named = node.op in ("call_module", "call_method")
        return repr(str(node.target) if named else node.name)

    def probe(self, node: fx.Node, test: Callable[..., bool], *args: Any) -> bool:
        """The result of a test of what a node calls, which is run once."""
        if (node, test) not in self.probed:
            called = NodeCall(node) if node.op != "call_module" else self.module(node)
            self.probed[node, test] = test(called, *args)
        return self.probed[node, test]

    def freeze(self, nodes: Iterable[fx.Node], reason: str) -> None:
        for node in nodes:
            if node in self.layout:
                self.ties.freeze(self.layout[node], reason)
            for piece in self.pieces.get(node, ()):
                self.ties.freeze(piece, reason)

    def add_layer(self, node: fx.Node, kind: str, inputs: int, outputs: int) -> None:
        name, module = str(node.target), self.module(node)
        outs = self.size(outputs)
        others = [
            p.numel() for n, p in module.named_parameters() if kind == "norm" or n != "weight"
        ]
        scanned = node.all_input_nodes[0] if kind == "transposed conv" else node
        self.layers[name] = Layer(
            name=name,
            kind=kind,
            inputs=inputs,
            outputs=outputs,
            kernel=tuple(module.kernel_size) if "conv" in kind else (1, 1),
            size=self._pixels(scanned),
            group_inputs=module.in_channels // module.groups if kind in GROUPED else 1,
            bias=getattr(module, "bias", None) is not None,
            by_output=sum(count == outs for count in others),
            params=sum(count for count in others if count != outs),
            block=self.block_of(name) or self.block_of(path_of(node)),
            order=self.order[node],
        )

    def add_free_layer(
        self, node: fx.Node, kind: str, inputs: int, standardised: bool = False
    ) -> int:
        """Add a layer whose output has a width of its own, and return the layout of that."""
        size, name = self.shape(node)[self.axis_of(node)], str(node.target)
        outputs, widths = add_cut_layer(self.ties, name, size)
        self.add_layer(node, kind, inputs, outputs)
        self.layers[name] = replace(self.layers[name], standardised=standardised)
        self.maker |= dict.fromkeys(widths, node)
        self.depth[node] += 1
        return outputs

    def _pixels(self, node: fx.Node) -> tuple[int, ...]:
        """The size of the node's output without images and channels."""
        axis, shape = self.axis_of(node), self.shape(node)
        return (*shape[1:axis], *shape[axis + 1 :]) or (1, 1)

    def unknown(self, node: fx.Node, reason: str = "") -> int | None:
        """Read a node of which nothing is known: its inputs keep their width."""
        name = self.describe(node)
        if not reason:
            why = self.opaque.get(str(node.target))
            reason = f"cannot be traced: {why}" if why else "is not supported"
            reason = f"{name} {reason}"
        self.freeze(node.all_input_nodes, reason)
        # of a module of several outputs, such as attention, the first is the one that is shown
        shape = self.shape(node) or next(iter(self.outputs[node].parts), ())
        # a norm over the last axis leaves the channels where they are
        like = [n for n in node.all_input_nodes if n in self.axis and self.shape(n) == shape]
        self.axis[node] = self.axis[like[0]] if like else 1
        outputs = self.new(FixedWidth(shape[self.axis[node]] if len(shape) > 1 else 1))
        target = str(node.target) if node.op == "call_module" else node.name
        macs, params = self.outputs[node].macs, 0
        if node.op == "call_module":
            module = self.module(node)
            parameters = set(module.parameters())
            if parameters:
                self.fixed[target] = reason
            params = sum(p.numel() for p in parameters - self.counted)
            self.counted |= parameters
            linears = [m for m in module.modules() if isinstance(m, nn.Linear)]
            macs += sum(m.out_features for m in linears if m.bias is not None)
        earlier = self.layers.get(target)
        if params or macs:
            self.layers[target] = Layer(
                name=target,
                kind="constant",
                inputs=outputs,
                outputs=outputs,
                size=self._pixels(node),
                block=self.block_of(path_of(node)),
                macs=macs + (earlier.macs if earlier else 0),
                params=params + (earlier.params if earlier else 0),
                order=self.order[node],
            )
        return outputs if len(self.shape(node)) > 1 else None
