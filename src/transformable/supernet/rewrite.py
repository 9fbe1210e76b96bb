"""A network rewritten so that what its layers and stages give can be mixed from outside."""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from torch import Tensor, fx, nn

from ..shape import Shape
from ..slimming.slim import revive_dropout, slim
from ..tracing import FixedWidth, Layer, LayerOutput, StageOutput, Union, channel_masks
from ..tracing.space import Space
from .fuse_relus import fuse_relus
from .mixed_layer import Mixed, keep_alive

__all__ = ["Searchable", "Twin"]

# f(0) is not 0: dead channels come to life behind these
RAISING = (
    *("sigmoid", "sigmoid_", "hardsigmoid", "softplus", "logsigmoid", "exp", "cos"),
    *("threshold", "clamp", "clamp_min", "constantpad2d"),
)
ADDING = ("add", "add_", "sub", "sub_", "iadd", "isub")


@dataclass(frozen=True)
class Searchable:
    """A layer whose width is searched: the choice that it follows, and what its norm has learnt."""

    choice: str
    scale: Tensor | None
    shift: Tensor | None


class Twin:
    """The network at its widest, with a second input: a dict of what each part is mixed with.

    `mixed` are the layers that take a matrix, by name; `ends` the stages that take weights, with
    the layouts of their outputs by depth; `masked` the layouts whose dead channels have to be set
    to zero again, with their sizes.
    """

    def __init__(self, model: nn.Module, space: Space) -> None:
        widest = {name: sizes[-1] for name, sizes in space.widths.items()}
        network = slim(model, space, Shape(widest, space.full.depths))
        # an add of different widths is a plain add here, also where deriving will project
        residual: Literal["tied", "pad"] = "tied" if space.residual == "tied" else "pad"
        self.space = Space.trace(network, space.input_shape, residual=residual)
        self.shares = space.shares
        self.searched = set(space.widths)
        self.layouts = self.space.layouts
        self.mixed: dict[str, Searchable] = {}
        self.masked: dict[int, int] = {}
        self.ends: dict[str, list[int]] = {}
        self.sizes: dict[str, int] = {}
        self.modules = dict(network.named_modules())
        for module in self.modules.values():
            if hasattr(module, "inplace"):
                module.inplace = False  # the output of a block is read twice here
        self.body = self._rewrite(network, space)

    def masks(self, widths: Mapping[str, int], depths: Mapping[str, list[int]]) -> list[int]:
        """Which channels of each layout are alive, when these are the widest of each layer and the
        depths of each stage that are in the mix."""
        layouts = [
            Union(layout.size, tuple(layout.parts[depth - 1] for depth in depths[layout.stage]))
            if isinstance(layout, StageOutput)
            else layout
            for layout in self.layouts
        ]
        full = self.space.full.widths
        all_widths = {n: widths.get(self.shares.get(n, n), full[n]) for n in full}
        return channel_masks(layouts, Shape(all_widths))

    def _rewrite(self, network: nn.Module, space: Space) -> fx.GraphModule:
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        graph.output(graph.graph_copy(self.space.graph, copies))
        first = next(node for node in graph.nodes if node.op != "placeholder")
        with graph.inserting_before(first):
            mixes = graph.placeholder("mixes")
        layers = {layer.name: layer for layer in self.space.layers}
        fused: set[fx.Node] = set()
        for original in self.space.graph.nodes:
            if original.op in ("output", "placeholder") or original in fused:
                continue
            layer = layers.get(str(original.target)) if original.op == "call_module" else None
            layout = self.space.layout_of.get(original)
            if layer and layer.kind in ("conv", "linear") and self._choice(layer.outputs):
                norm = _norm_behind(original, layers)
                if norm and not hasattr(self.modules[str(norm.target)], "affine"):
                    norm = None  # a PReLU has a number for each channel too
                self._mix(network, graph, copies, original, norm, mixes)
                fused.update([norm] if norm else [])
            elif layout is not None and self._revives(original, layer):
                self._mask(graph, copies, original, layout, mixes)
        ends = {node for stage in self.space.stages.values() for node in stage.ends}
        fuse_relus(network, graph, copies, ends)
        for name, sizes in space.depths.items():
            self._mix_depths(graph, copies, name, sizes, mixes)
        revive_dropout(network, graph)
        return fx.GraphModule(network, graph)

    def _choice(self, index: int) -> str | None:
        """The choice of the space that a layer of the twin follows; the two are traced apart, and
        a projected add ties layers that a padded one does not."""
        layout = self.layouts[index]
        if not isinstance(layout, LayerOutput):
            return None
        choice = self.shares.get(layout.layer, layout.layer)
        return choice if choice in self.searched else None

    def _mix(
        self,
        network: nn.Module,
        graph: fx.Graph,
        copies: dict[fx.Node, fx.Node],
        original: fx.Node,
        norm: fx.Node | None,
        mixes: fx.Node,
    ) -> None:
        name, node = str(original.target), copies[original]
        module: Any = network.get_submodule(str(norm.target)) if norm else None
        choice = self._choice(self.space.layout_of[original])
        assert choice is not None
        learnt = (module.weight, module.bias) if module and module.affine else (None, None)
        self.mixed[name] = Searchable(choice, *learnt)
        network.set_submodule(name, Mixed(network.get_submodule(name), module))
        with graph.inserting_before(node):
            node.args = (*node.args, graph.call_function(operator.getitem, (mixes, name)))
        if norm:
            copies[norm].replace_all_uses_with(node)
            graph.erase_node(copies[norm])
            copies[norm] = node

    def _revives(self, node: fx.Node, layer: Layer | None) -> bool:
        """Whether channels that are zero come out of this node as something else."""
        if isinstance(self.layouts[self.space.layout_of[node]], FixedWidth):
            return False
        if layer:
            # a layer that follows a layout, a norm that is not behind its convolution
            return layer.kind != "depthwise conv" or layer.bias
        if node.op == "call_module":
            name = type(self.modules[str(node.target)]).__name__.lower()
        else:
            name = getattr(node.target, "__name__", str(node.target))
        tensors = [n for n in node.all_input_nodes if n in self.space.layout_of]
        size = self.layouts[self.space.layout_of[node]].size
        uneven = any(self.layouts[self.space.layout_of[n]].size != size for n in tensors)
        return name in RAISING or (name in ADDING and (len(tensors) == 1 or uneven))

    def _mask(
        self,
        graph: fx.Graph,
        copies: dict[fx.Node, fx.Node],
        original: fx.Node,
        layout: int,
        mixes: fx.Node,
    ) -> None:
        self.masked[layout] = self.layouts[layout].size
        node = copies[original]
        with graph.inserting_after(node):
            mask = graph.call_function(operator.getitem, (mixes, layout))
        with graph.inserting_after(mask):
            alive = graph.call_function(keep_alive, (node, mask))
        node.replace_all_uses_with(alive, lambda user: user is not alive)
        copies[original] = alive

    def _mix_depths(
        self,
        graph: fx.Graph,
        copies: dict[fx.Node, fx.Node],
        name: str,
        depths: tuple[int, ...],
        mixes: fx.Node,
    ) -> None:
        ends = self.space.stages[name].ends
        last = self.space.layouts[self.space.layout_of[ends[-1]]]
        layout = self.space.layout_of[ends[-1]]
        parts = last.parts if isinstance(last, StageOutput) else (layout,) * len(ends)
        self.ends[name] = [parts[depth - 1] for depth in depths]
        self.sizes[name] = last.size
        with graph.inserting_before(copies[ends[depths[0] - 1]].next):
            mix = graph.call_function(operator.getitem, (mixes, name))
        totals: Any = {}
        for i, depth in enumerate(depths):
            node = copies[ends[depth - 1]]
            with graph.inserting_before(node.next if totals else mix.next):
                tapped = graph.call_method("tap", (mix, i, node, totals))
                output = graph.call_function(operator.getitem, (tapped, 0))
                totals = graph.call_function(operator.getitem, (tapped, 1))
            node.replace_all_uses_with(output, partial(operator.is_not, tapped))
        with graph.inserting_before(totals.next):
            end = graph.call_method("end", (mix, totals))
        output.replace_all_uses_with(end)


def _norm_behind(node: fx.Node, layers: Mapping[str, Layer]) -> fx.Node | None:
    """The norm that reads a layer, if nothing else does."""
    if len(node.users) != 1:
        return None
    [user] = node.users
    layer = layers.get(str(user.target)) if user.op == "call_module" else None
    return user if layer and layer.kind == "norm" else None
