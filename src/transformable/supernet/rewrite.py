"""Rewrites a network into the body of a supernet, whose widths and depths are mixed from outside.

The body takes images and a dict of controls: the `ChannelMatrix` of each searched layer and the
`MixedDepths` of each stage, by name; the mask of each masked layout, by its index.
"""

import operator
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from ..layers import in_mode
from ..resizing import MATRICES
from ..slimming.slim import revive_dropout, slim
from ..tracing.cuts import part_name
from ..tracing.layouts import (
    Concat,
    FixedWidth,
    LayerOutput,
    Layout,
    StageOutput,
)
from ..tracing.probing import children_behind_norm
from ..tracing.reader import Layer
from ..tracing.space import Space
from .fuse_relus import fuse_relus
from .mixed_layer import MixedLayer, PresentInputs, mask_channels
from .rewritten_network import RewrittenNetwork, SearchedLayer
from .woken_channels import nodes_that_wake_channels

__all__ = ["rewrite"]


def rewrite(model: nn.Module, space: Space) -> RewrittenNetwork:
    """Rewrite a copy of a network, at the largest candidate widths of a space."""
    network = slim(model, space, space.largest)
    # an add of different widths is a plain add here, also where slim will project
    residual: Literal["tied", "pad"] = "tied" if space.residual == "tied" else "pad"
    traced = space.retrace(network, residual)
    in_place = []
    for name, module in network.named_modules():
        if getattr(module, "inplace", False):
            module.inplace = False  # the output of a block is read twice
            in_place.append(name)
    rewriter = _Rewriter(network, traced, space, in_place)
    rewriter.run()
    return RewrittenNetwork(
        body=rewriter.body,
        network=network,
        space=traced,
        choices={name: space.shares.get(name, name) for name in traced.full.widths},
        layers=rewriter.layers,
        stage_outputs=rewriter.stage_outputs,
        masked=rewriter.masked,
        in_place=in_place,
    )


class _Rewriter:
    """The body while it is being rewritten.

    `network` has the trace `traced`; `space` is that of the model, with the candidates. `copies`
    maps the nodes of the trace to those of the body.
    """

    def __init__(
        self, network: nn.Module, traced: Space, space: Space, in_place: list[str]
    ) -> None:
        self.network, self.traced, self.space = network, traced, space
        self.in_place = in_place
        graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        graph.output(graph.graph_copy(traced.graph, self.copies))
        # modules of its own that contain the layers of the network
        self.body = fx.GraphModule(network, graph)
        self.graph = self.body.graph
        images = next(node for node in self.graph.nodes if node.op == "placeholder")
        images.args = ()  # no default: an argument without one stands behind it
        with self.graph.inserting_after(images):
            self.controls = self.graph.placeholder("controls")
        self.layers: dict[str, SearchedLayer] = {}
        self.stage_outputs: dict[str, list[int]] = {}
        self.masked: set[int] = set()

    def run(self) -> None:
        layers = {layer.name: layer for layer in self.traced.layers}
        self._work_on_copies()
        self._view_any_memory()
        woken = nodes_that_wake_channels(self.network, self.traced)
        fused: set[fx.Node] = set()
        for node in self.traced.graph.nodes:
            if node.op in ("output", "placeholder") or node in fused:
                continue
            layer = layers.get(str(node.target)) if node.op == "call_module" else None
            parts = self._searched_parts(layer) if layer else []
            if parts:
                norm = self._norm_behind(node, layers)
                self._mix_widths(node, norm, parts)
                fused.update([norm] if norm else [])
            if layer and layer.standardised:
                self._pass_present_inputs(node)
            if node in woken and not parts:
                self._mask(node)
        ends = {node for stage in self.traced.stages.values() for node in stage.ends}
        fuse_relus(self.body, self.copies, ends)
        for name, depths in self.space.depths.items():
            self._mix_depths(name, depths)
        revive_dropout(self.body, self.graph)
        for norm in fused:
            self.body.delete_submodule(str(norm.target))
        for node in reversed(self.graph.nodes):
            if node.target == "clone" and not node.users:  # of a relu that was fused
                self.graph.erase_node(node)
        self.body.delete_all_unused_submodules()
        self.body.recompile()

    def _searched_parts(self, layer: Layer) -> list[tuple[str | None, int]]:
        """For each part of the outputs of a layer, the layer of the space whose candidates it
        follows, and its size; empty if it follows none.

        The ties of the two traces may differ: a projected add ties layers that a padded one does
        not."""
        if layer.kind not in MATRICES:
            return []
        parts: list[tuple[str | None, int]] = []
        for layout in self._leaves(layer.outputs):
            if not isinstance(layout, LayerOutput | FixedWidth):
                return []
            name = layout.layer if isinstance(layout, LayerOutput) else ""
            choice = self.space.shares.get(name, name)
            parts.append((choice if choice in self.space.widths else None, layout.size))
        return parts if any(choice for choice, _ in parts) else []

    def _leaves(self, index: int) -> Iterator[Layout]:
        """The layouts that are concatenated in a layout."""
        layout = self.traced.layouts[index]
        if isinstance(layout, Concat):
            for part in layout.parts:
                yield from self._leaves(part)
        else:
            yield layout

    def _norm_behind(self, node: fx.Node, layers: Mapping[str, Layer]) -> fx.Node | None:
        """The norm that reads the output of a layer, if nothing else does."""
        if len(node.users) != 1:
            return None
        [user] = node.users
        layer = layers.get(str(user.target)) if user.op == "call_module" else None
        # anything that has a number for each channel counts as a norm in a trace
        if not layer or not isinstance(module := self._module(user), _BatchNorm | _InstanceNorm):
            return None
        size = () if isinstance(module, nn.BatchNorm1d) else layer.size
        shape = 2, self._layout(user).size, *size
        return None if children_behind_norm(module, shape) is None else user

    def _mix_widths(
        self, original: fx.Node, norm: fx.Node | None, parts: list[tuple[str | None, int]]
    ) -> None:
        name, node = str(original.target), self.copies[original]
        module: Any = self._module(norm) if norm else None
        affine = module is not None and module.affine
        scales, shifts = (module.weight, module.bias) if affine else (None, None)
        mixed = MixedLayer(self._module(original), module)
        norm_name = str(norm.target) if norm else None
        sizes = [size for _, size in parts]
        names = [name] if len(parts) == 1 else [part_name(name, i) for i in range(len(parts))]
        mixed.expanding = mixed.expanding and len(parts) == 1
        for i, (part, (choice, size)) in enumerate(zip(names, parts, strict=True)):
            scale, shift = (None if t is None else t.split(sizes)[i] for t in (scales, shifts))
            self.layers[part] = SearchedLayer(
                choice, size, norm_name, scale, shift, mixed.expanding
            )
        self.body.set_submodule(name, mixed)
        with self.graph.inserting_before(node):
            matrices = [
                self.graph.call_function(operator.getitem, (self.controls, part)) for part in names
            ]
        node.args = (*node.args, *matrices)
        if norm:
            self.copies[norm].replace_all_uses_with(node)
            self.graph.erase_node(self.copies[norm])
            self.copies[norm] = node
            if any(_is_nonzero_at_zero(child, module.num_features) for child in mixed.behind):
                self._mask(norm)

    def _pass_present_inputs(self, original: fx.Node) -> None:
        """Tell a layer that standardises its filters which of its inputs are there."""
        [source] = original.all_input_nodes
        index, node = self.traced.layout_of[source], self.copies[original]
        self.masked.add(index)
        module = self._module(original)
        if not isinstance(module, MixedLayer):
            self.body.set_submodule(str(original.target), PresentInputs(module))
        with self.graph.inserting_before(node):
            mask = self.graph.call_function(operator.getitem, (self.controls, index))
        node.kwargs = {"present": mask}

    def _mask(self, original: fx.Node) -> None:
        """Set the absent channels of a tensor to zero."""
        index, node = self.traced.layout_of[original], self.copies[original]
        self.masked.add(index)
        with self.graph.inserting_after(node):
            mask = self.graph.call_function(operator.getitem, (self.controls, index))
        with self.graph.inserting_after(mask):
            axis = self.traced.axis_of.get(original, 1)
            masked = self.graph.call_function(mask_channels, (node, mask, axis))
        node.replace_all_uses_with(masked, lambda user: user is not masked)
        self.copies[original] = masked

    def _work_on_copies(self) -> None:
        """Let operations in place, whose inputs the supernet may read again, work on copies."""
        for original, overwritten in self.traced.overwrites.items():
            node = self.copies[original]
            if node.target is operator.iadd:
                node.target = operator.add
            elif node.op != "call_module" or str(node.target) not in self.in_place:
                for source in overwritten:
                    with self.graph.inserting_before(node):
                        clone = self.graph.call_method("clone", (self.copies[source],))
                    node.replace_input_with(self.copies[source], clone)

    def _view_any_memory(self) -> None:
        """Let views copy where they have to: what mixes channels is stored channels-last."""
        for node in self.graph.nodes:
            if (node.op, node.target) == ("call_method", "view") and not _views_as_type(node):
                node.target = "reshape"

    def _mix_depths(self, name: str, depths: tuple[int, ...]) -> None:
        """Add up the outputs of a stage at its depths, to be its output."""
        ends = self.traced.stages[name].ends
        last = self._layout(ends[-1])
        everywhere = (self.traced.layout_of[ends[-1]],) * len(ends)
        parts = last.parts if isinstance(last, StageOutput) else everywhere
        self.stage_outputs[name] = [parts[depth - 1] for depth in depths]
        with self.graph.inserting_before(self.copies[ends[depths[0] - 1]].next):
            mixed = self.graph.call_function(operator.getitem, (self.controls, name))
        totals: Any = {}
        for i, depth in enumerate(depths):
            node = self.copies[ends[depth - 1]]
            with self.graph.inserting_before(node.next if totals else mixed.next):
                added = self.graph.call_method("add", (mixed, i, node, totals))
                x = self.graph.call_function(operator.getitem, (added, 0))
                totals = self.graph.call_function(operator.getitem, (added, 1))
            node.replace_all_uses_with(x, partial(operator.is_not, added))
        with self.graph.inserting_before(totals.next):
            output = self.graph.call_method("output", (mixed, totals))
        x.replace_all_uses_with(output)

    def _module(self, node: fx.Node) -> nn.Module:
        return self.body.get_submodule(str(node.target))

    def _layout(self, node: fx.Node) -> Any:
        return self.traced.layouts[self.traced.layout_of[node]]


def _views_as_type(node: fx.Node) -> bool:
    """Whether a view reads its tensor as another type, and not in another shape."""
    return any(isinstance(arg, torch.dtype) for arg in (*node.args, *node.kwargs.values()))


def _is_nonzero_at_zero(module: nn.Module, channels: int) -> bool:
    """Whether a module makes something else of channels that are zero."""
    like = next(module.parameters(), torch.zeros(()))
    zeros = torch.zeros(1, channels, 1, 1, dtype=like.dtype, device=like.device)
    with torch.no_grad(), in_mode(module, training=False):
        return bool(module(zeros).any())
