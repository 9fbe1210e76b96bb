"""The modules of a supernet: a layer with mixed widths, a stage with mixed depths."""

import copy
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..tracing.probing import own_class
from .channel_matrix import ChannelMatrix, joined, sparse_mix
from .fused_ops import add_aligned, add_weighted, norm_then_matrix
from .pointwise_layer import is_expanding, merges, pointwise_norm_mix

__all__ = ["MixedDepths", "MixedLayer", "PresentInputs", "can_fuse_relu", "mask_channels"]

Control = TypeVar("Control", Tensor, ChannelMatrix)


class MixedLayer(nn.Module):
    """A layer and the norm behind it. The norm's affine part is replaced by the channel matrix that
    the drawn candidates make together. What a norm has inside itself, such as an activation, is
    called behind that."""

    def __init__(self, layer: Any, norm: Any) -> None:
        super().__init__()
        children = [] if norm is None else [*norm.children()]
        children = [child for child in children if not isinstance(child, nn.Identity)]
        if norm is not None:
            norm.affine, norm.weight, norm.bias = False, None, None
            norm = _without_children(norm)
        self.relu = bool(children) and type(children[0]) is nn.ReLU and can_fuse_relu(norm)
        self.behind = nn.ModuleList(children[1:] if self.relu else children)
        self.layer, self.norm = layer, norm
        self.expanding = is_expanding(layer, norm)

    def forward(self, x: Tensor, *mixes: ChannelMatrix, present: Tensor | None = None) -> Tensor:
        """`mixes` are those of the parts of the outputs; `present` is needed by a layer that
        standardises its filters over the inputs."""
        x = self._mixed(x, joined(mixes), present)
        for module in self.behind:
            x = module(x)
        return x

    def _mixed(self, x: Tensor, mix: ChannelMatrix, present: Tensor | None) -> Tensor:
        # with a diagonal matrix a plain batch norm is as fast
        if self.expanding and mix.values.ndim == 2 and merges(x, self.layer, self.norm, mix):
            return pointwise_norm_mix(x, self.layer, self.norm, mix, relu=self.relu)
        x = self.layer(x) if present is None else call_with_present_inputs(self.layer, x, present)
        mix = _in_type_of(x, mix)
        if mix.columns is not None:
            x = sparse_mix(self.norm(x), mix)
            return F.relu_(x) if self.relu else x
        matrix, shift = mix.values, mix.shift
        if self.norm is not None and (x.ndim == 4 or matrix.ndim == 1):
            return norm_then_matrix(x, self.norm, matrix, shift, relu=self.relu)
        if self.norm is not None:
            x = self.norm(x)
        if isinstance(self.layer, nn.Linear) and self.norm is None:
            return F.linear(x, matrix, shift) if matrix.ndim == 2 else x * matrix
        if matrix.ndim == 1:
            return mask_channels(x, matrix)
        if x.ndim == 4:
            return F.conv2d(x, matrix[:, :, None, None], shift)
        return F.conv1d(x.flatten(2), matrix[:, :, None], shift).view(x.shape)


class PresentInputs(nn.Module):
    """A layer that standardises its filters over the inputs, among which are those that no drawn
    candidate has."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, present: Tensor) -> Tensor:
        return call_with_present_inputs(self.layer, x, present)


def call_with_present_inputs(layer: nn.Module, x: Tensor, present: Tensor) -> Tensor:
    """What a layer computes that has only the inputs for which `present` is not 0."""
    if present.all():
        return layer(x)  # type: ignore[no-any-return]
    kept = present.nonzero().flatten()
    axis = x.ndim - 1 if isinstance(layer, nn.Linear) else 1
    weights = layer.weight.index_select(1, kept)  # type: ignore[operator]
    inputs = (x.index_select(axis, kept),)
    return torch.func.functional_call(layer, {"weight": weights}, inputs)  # type: ignore[no-any-return]


def can_fuse_relu(norm: nn.Module | None) -> bool:
    """Whether a layer with this norm can compute a relu in place."""
    return isinstance(norm, nn.BatchNorm2d)


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
        x, total = add_weighted(x, _in_type_of(x, self.weights[depth]), totals.get(index))
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
                result = add_aligned(totals[index], _in_type_of(result, alignment.values), result)
        return result


def mask_channels(x: Tensor, mask: Tensor, axis: int = 1) -> Tensor:
    """Multiply each channel by its entry of the mask, 0 for a channel that no candidate has."""
    return x * _in_type_of(x, mask).view(-1, *[1] * (x.ndim - 1 - axis))


def _in_type_of(x: Tensor, control: Control) -> Control:
    """Controls have the type of the images, but a forward may cast its tensors to another one;
    autocast chooses types by itself."""
    return control if torch.is_autocast_enabled(x.device.type) else control.to(x.dtype)
