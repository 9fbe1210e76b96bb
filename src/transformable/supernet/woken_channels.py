"""Finds the operations behind which channels that are not there would not be zero any more."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..layers import in_mode
from ..resizing import GROUPED
from ..shape import Shape
from ..tracing.reader import Layer
from ..tracing.space import Space

__all__ = ["nodes_that_wake_channels"]


def nodes_that_wake_channels(network: nn.Module, space: Space) -> set[fx.Node]:
    """The nodes of the graph of `space`, the trace of the network, whose outputs are not zero where
    the narrowest shape has no channels, although their inputs are zero there."""
    finder = _Finder(network, space)
    like = next(network.parameters())
    images = torch.randn(2, *space.input_shape, generator=torch.Generator().manual_seed(0)).to(like)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), in_mode(network, training=False):
        finder.run(images)
    return finder.woken


class _Finder(fx.Interpreter):
    """Runs a network in which the channels that the narrowest shape lacks are zero everywhere."""

    def __init__(self, network: nn.Module, space: Space) -> None:
        super().__init__(network, graph=space.graph)
        self.layers: Mapping[str, Layer] = {layer.name: layer for layer in space.layers}
        widths = {name: space.units.get(name, 1) for name in space.full.widths}
        narrowest = Shape(widths, dict.fromkeys(space.full.depths, 1))
        self.axis_of = space.axis_of
        masks = space.masks(narrowest)
        self.absent = {
            node: [i for i in range(space.layouts[index].size) if not masks[index] >> i & 1]
            for node, index in space.layout_of.items()
        }
        self.woken: set[fx.Node] = set()

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "get_attr":
            # a parameter that is zero now need not stay zero
            value = super().run_node(n)
            return value.new_ones(()).expand_as(value) if value.is_floating_point() else value
        absent = self.absent.get(n, [])
        layer = self.layers.get(str(n.target)) if n.op == "call_module" else None
        values = self._in_training(n) if absent and n.op == "call_module" and not layer else []
        value = super().run_node(n)
        if not absent:
            return value
        axis, where = self.axis_of.get(n, 1), torch.tensor(absent, device=value.device)
        if layer:
            # only grouped convolutions without a bias are zero whatever their parameters are
            wakes = layer.kind not in GROUPED or layer.bias
        else:
            wakes = any(bool(each.index_select(axis, where).any()) for each in (value, *values))
        if wakes:
            self.woken.add(n)
        return value.index_fill(axis, where, 0)

    def _in_training(self, n: fx.Node) -> list[Tensor]:
        """What a copy of a module gives in training, for a copy of its input."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        args = tuple(arg.clone() if isinstance(arg, Tensor) else arg for arg in args)
        return [copy.deepcopy(self.fetch_attr(str(n.target))).train()(*args, **kwargs)]
