"""The scales and shifts of all candidate widths, and the channel matrices made of them."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from ..settings import Align
from ..tracing.space import Space
from .channel_matrix import DENSE_UP_TO, ChannelMatrix
from .interpolation import interpolate_candidates
from .rewritten_network import SearchedLayer

__all__ = ["CandidateNorms", "make_candidate_norms"]


class CandidateNorms(nn.Module):
    """The norms of the layers that have the same candidate widths.

    Every candidate of a layer has its own scale and shift, (layer, candidate, channel), of which it
    uses the leading channels. Layers without an affine norm have none.
    """

    def __init__(
        self, layers: Mapping[str, SearchedLayer], candidates: tuple[int, ...], align: Align
    ) -> None:
        super().__init__()
        self.names, self.candidates, self.align = list(layers), candidates, align
        # sparse matrices only pay where a dense one would cost more than the layer
        wide = max(candidates) > DENSE_UP_TO
        self.dense = [
            i for i, layer in enumerate(layers.values()) if not (wide and layer.expanding)
        ]
        self.choices = [layer.choice for layer in layers.values()]
        """None for a part of a layer's outputs whose width is fixed, its only candidate."""
        # no buffers: they stay on the CPU, in float64, which not every device has
        self.sources, self.coefficients = interpolate_candidates(candidates, align)
        scales = [layer.scale for layer in layers.values() if layer.scale is not None]
        shifts = [layer.shift for layer in layers.values() if layer.shift is not None]
        self.scale = self.shift = None
        if scales:
            # every candidate starts with the scale and shift of the network
            self.scale, self.shift = (
                nn.Parameter(
                    torch.stack(rows).detach()[:, None].repeat(1, len(candidates), 1),
                    rows[0].requires_grad,
                )
                for rows in (scales, shifts)
            )

    def forward(self, candidates: Tensor, weights: Tensor) -> Iterator[tuple[str, ChannelMatrix]]:
        """The channel matrix of each layer, from its drawn candidates and their weights."""
        used = torch.where(weights.detach() > 0, candidates, 0)
        pairs = used.cpu(), used.max(1, keepdim=True).values.expand_as(used).cpu()
        sources = self.sources[pairs].to(weights.device)  # (layer, drawn, channel, 2)
        values = self.coefficients[pairs].to(weights) * weights[:, :, None, None]
        layers, drawn, channels, _ = sources.shape
        shift = None
        if self.scale is not None and self.shift is not None:
            each = torch.arange(layers, device=used.device)[:, None]
            scale, shift = (
                rows[each, used].gather(2, sources.flatten(2)).view(sources.shape)
                for rows in (self.scale, self.shift)
            )
            values, shift = values * scale, (values * shift).sum((1, 3))
        shifts = [None] * layers if shift is None else shift.unbind()
        if self.align == "pad":
            diagonals = values.sum((1, 3)).unbind()  # no channel moves
            mixes = list(map(ChannelMatrix, diagonals, shifts))
        else:
            columns, values = (
                t.permute(0, 2, 1, 3).reshape(layers, channels, drawn * 2)
                for t in (sources, values)
            )
            mixes = list(map(ChannelMatrix, values.unbind(), shifts, columns.unbind()))
            dense = self.dense if len(self.dense) < layers else slice(None)
            columns, values = columns[dense], values[dense]
            size = len(columns), channels, channels
            matrices = values.new_zeros(size).scatter_add(2, columns, values).unbind()
            for i, matrix in zip(self.dense, matrices, strict=True):
                mixes[i] = ChannelMatrix(matrix, shifts[i])
        yield from zip(self.names, mixes, strict=True)

    def affine_at(self, widths: Mapping[str, int]) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
        """The scale and shift of each layer for its candidate in `widths`, at full width."""
        if self.scale is None or self.shift is None:
            return
        for i, (name, choice) in enumerate(zip(self.names, self.choices, strict=True)):
            j = self.candidates.index(widths[choice]) if choice else 0
            yield name, (self.scale[i, j], self.shift[i, j])


def make_candidate_norms(
    layers: Mapping[str, SearchedLayer], space: Space, align: Align
) -> nn.ModuleList:
    """One `CandidateNorms` per set of candidates, apart for layers with and without affine norm, or
    with a frozen one."""
    groups: dict[tuple[tuple[int, ...], tuple[bool, ...]], dict[str, SearchedLayer]] = {}
    for name, layer in layers.items():
        affine = [p.requires_grad for p in (layer.scale, layer.shift) if p is not None]
        candidates = space.widths[layer.choice] if layer.choice else (layer.size,)
        key = candidates, tuple(affine)
        groups.setdefault(key, {})[name] = layer
    return nn.ModuleList(
        CandidateNorms(group, candidates, align) for (candidates, _), group in groups.items()
    )
