"""What a rewritten network consists of, and the way back to an ordinary one."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..shape import Shape
from ..tracing.layouts import StageOutput, Union, channel_masks
from ..tracing.space import Space

__all__ = ["RewrittenNetwork", "SearchedLayer"]


@dataclass(frozen=True)
class SearchedLayer:
    """A layer whose width is searched, or a part of its outputs, and the norm it is fused with."""

    choice: str | None
    """The layer that has the candidates: itself, or the one whose width it shares; None for a part
    that is fixed."""
    size: int
    norm: str | None
    scale: Tensor | None
    """The affine parameters that the norm had."""
    shift: Tensor | None
    expanding: bool
    """Whether it can do without a dense channel matrix, see `pointwise_layer`."""


@dataclass(frozen=True)
class RewrittenNetwork:
    """The body, and what is needed to control it and to turn it back into a network."""

    body: fx.GraphModule
    network: nn.Module
    """The network at its widest. It shares the layers of the body, so its norms are not affine."""
    space: Space
    """The trace of that network."""
    choices: Mapping[str, str]
    """For each layer with a width in `space`, the layer that has the candidates."""
    layers: Mapping[str, SearchedLayer]
    stage_outputs: Mapping[str, list[int]]
    """The layouts of the outputs of each stage at its candidate depths."""
    masked: set[int]
    """The layouts whose absent channels have to be set to zero again."""
    in_place: list[str]
    """The modules that worked in place before they were rewritten."""

    def masks(self, widths: Mapping[str, int], depths: Mapping[str, list[int]]) -> list[int]:
        """The channels of each layout that are present, for the widest drawn candidate of each
        layer and the drawn depths of each stage."""
        layouts = [
            Union(layout.size, tuple(layout.parts[depth - 1] for depth in depths[layout.stage]))
            if isinstance(layout, StageOutput)
            else layout
            for layout in self.space.layouts
        ]
        full = self.space.full.widths
        return channel_masks(
            layouts, Shape({n: widths.get(self.choices[n], full[n]) for n in full})
        )

    def restore(self, affine: Mapping[str, tuple[Tensor, Tensor]]) -> nn.Module:
        """The network at its widest, ordinary again, with the present weights of the body (it may
        share tensors with it).

        `affine` has the scale and shift for the norm of each layer whose norm was affine.
        """
        network = copy.deepcopy(self.network).train(self.body.training)
        # tensors outside of layers are not shared once the body has been moved
        state = self.body.state_dict()
        network.to(next(iter(state.values())).device)
        network.load_state_dict(state, strict=False, assign=True)
        parts: dict[str, list[str]] = {}
        for name, layer in self.layers.items():
            if name in affine:
                parts.setdefault(str(layer.norm), []).append(name)
        for norm_name, names in parts.items():
            norm: Any = network.get_submodule(norm_name)
            first = self.layers[names[0]]
            columns = zip(*(affine[name] for name in names), strict=True)
            norm.affine = True
            norm.weight, norm.bias = (
                nn.Parameter(torch.cat(each).detach(), old is None or old.requires_grad)
                for each, old in zip(columns, (first.scale, first.shift), strict=True)
            )
        for name in self.in_place:
            network.get_submodule(name).inplace = True  # type: ignore[assignment]
        return network
