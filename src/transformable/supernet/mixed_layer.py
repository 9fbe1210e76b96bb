"""The modules of a supernet: a layer with mixed widths, a stage with mixed depths."""

import copy
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from ..tracing.probing import own_class
from .channel_matrix import ChannelMatrix, sparse_mix
from .fused_ops import add_aligned, add_weighted, norm_then_matrix
from .pointwise_layer import is_expanding, merges, pointwise_norm_mix

__all__ = ["MixedDepths", "MixedLayer", "mask_channels"]


class MixedLayer(nn.Module):
    """A layer and the norm behind it. The norm's affine part is replaced by the channel matrix that
    the drawn candidates make together. What a norm has inside itself, such as an activation, is
    called behind that."""

    def __init__(self, layer: Any, norm: Any) -> None:
        super().__init__()
        children = [] if norm is None else [*norm.children()]
        children = [child for child in children if not isinstance(child, nn.Identity)]
        self.relu = type(norm) is not nn.BatchNorm2d and _starts_with_relu(children)
        self.behind = nn.ModuleList(children[1:] if self.relu else children)
        if norm is not None:
            norm.affine, norm.weight, norm.bias = False, None, None
            norm = _without_children(norm)
        self.layer, self.norm = layer, norm
        self.expanding = is_expanding(layer, norm)

    def forward(self, x: Tensor, mix: ChannelMatrix) -> Tensor:
        x = self._mixed(x, mix)
        for module in self.behind:
            x = module(x)
        return x

    def _mixed(self, x: Tensor, mix: ChannelMatrix) -> Tensor:
        # with a diagonal matrix a plain batch norm is as fast
        if self.expanding and mix.values.ndim == 2 and merges(x, self.layer, self.norm):
            return pointwise_norm_mix(x, self.layer, self.norm, mix, relu=self.relu)
        x = self.layer(x)
        if mix.columns is not None:
            x = sparse_mix(self.norm(x), mix)
            return F.relu_(x) if self.relu else x
        matrix, shift = mix.values, mix.shift
        if self.norm is not None and (x.ndim == 4 or matrix.ndim == 1):
            return norm_then_matrix(x, self.norm, matrix, shift, relu=self.relu)
        if self.norm is not None:
            x = self.norm(x)
        if matrix.ndim == 1:
            return mask_channels(x, matrix)
        if x.ndim == 2:
            return F.linear(x, matrix, shift)
        return F.conv1d(x.flatten(2), matrix[:, :, None], shift).unflatten(2, x.shape[2:])


def _starts_with_relu(modules: list[nn.Module]) -> bool:
    return bool(modules) and type(modules[0]) is nn.ReLU


def _without_children(norm: nn.Module) -> nn.Module:
    """A norm of torch's own class that shares the statistics of one derived from it."""
    base = own_class(norm)
    if type(norm) is base:
        return norm
    # not a copy of the buffers, but the same dict of them: what moves one to a device moves both
    plain = copy.copy(norm)
    plain.__class__, plain._modules = base, {}
    return plain


@dataclass(frozen=True)
class MixedDepths:
    """The weighted sum of a stage's outputs at its candidate depths (eq. 5).

    Alignment is linear, so outputs of the same width are added up first, into one total per width,
    and each total is aligned once.
    """

    weights: tuple[Tensor, ...]
    """The weight of each depth."""
    total_of: list[int]
    """The index of the total that the output of each depth is added to."""
    alignments: list[ChannelMatrix | None]
    """The matrix that aligns each total with the widest, None where there is nothing to align."""

    def add(
        self, depth: int, x: Tensor, totals: dict[int, Tensor]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """Add the output x at a depth; x itself goes on to the next block."""
        index = self.total_of[depth]
        x, total = add_weighted(x, self.weights[depth], totals.get(index))
        return x, {**totals, index: total}

    def output(self, totals: dict[int, Tensor]) -> Tensor:
        """The output of the stage: the sum of the aligned totals."""
        result = totals[self.alignments.index(None)]
        for index, alignment in enumerate(self.alignments):
            if alignment is None:
                continue
            if alignment.columns is not None:
                result = sparse_mix(totals[index], alignment) + result
            else:
                result = add_aligned(totals[index], alignment.values, result)
        return result


def mask_channels(x: Tensor, mask: Tensor) -> Tensor:
    """Multiply each channel by its entry of the mask, 0 for a channel that no candidate has."""
    return x * mask.view(-1, *[1] * (x.ndim - 2))
