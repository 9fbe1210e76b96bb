"""The parts of a searchable network: a layer whose channels are mixed, a stage whose depths are."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from .fused_ops import aligned_sum, norm_mix, tap

__all__ = ["DepthMix", "Mix", "Mixed", "keep_alive"]

Mix = tuple[Tensor, Tensor | None]
"""A matrix over channels, or its diagonal if it has nothing else, and a shift."""


class Mixed(nn.Module):
    """A layer with its norm; what the drawn candidates make of it is a matrix and a shift."""

    def __init__(self, layer: nn.Module, norm: Any) -> None:
        super().__init__()
        self.layer = layer
        self.norm = norm
        self.rectified = False
        if norm is not None:
            norm.affine, norm.weight, norm.bias = False, None, None

    def forward(self, x: Tensor, mix: Mix) -> Tensor:
        x = self.layer(x)
        matrix, shift = mix
        if self.norm is not None and (x.ndim == 4 or matrix.ndim == 1):
            return norm_mix(x, self.norm, matrix, shift, relu=self.rectified)
        if self.norm is not None:
            x = self.norm(x)
        if matrix.ndim == 1:
            return keep_alive(x, matrix)
        if x.ndim == 4:
            return F.conv2d(x, matrix[:, :, None, None], shift)
        return F.linear(x, matrix, shift)


@dataclass(frozen=True)
class DepthMix:
    """How the outputs of a stage at its depths are mixed (eq. 5): outputs of one width are one
    group, added up before they are aligned, which is linear."""

    weights: tuple[Tensor, ...]
    groups: list[int]
    """The group of each depth."""
    alignments: list[Tensor | None]
    """What aligns each group, if it has to be."""

    def tap(
        self, depth: int, x: Tensor, totals: dict[int, Tensor]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """The output at a depth, for the next block; and the totals with it."""
        group = self.groups[depth]
        x, total = tap(x, self.weights[depth], totals.get(group))
        return x, {**totals, group: total}

    def end(self, totals: dict[int, Tensor]) -> Tensor:
        """What leaves the stage."""
        widest = self.alignments.index(None)
        total = totals[widest]
        for group, alignment in enumerate(self.alignments):
            if alignment is not None:
                total = aligned_sum(totals[group], alignment, total)
        return total


def keep_alive(x: Tensor, mask: Tensor) -> Tensor:
    """Each channel times its own number, 0 for those that are not there."""
    return x * mask.view(-1, *[1] * (x.ndim - 2))
