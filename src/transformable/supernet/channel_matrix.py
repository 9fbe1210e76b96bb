"""The linear map over channels that the drawn candidates of a layer make together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["DENSE_UP_TO", "ChannelMatrix", "joined", "sparse_mix"]

DENSE_UP_TO = 256
"""Channels up to which a dense matrix is as fast as a sparse one."""


class ChannelMatrix(NamedTuple):
    """y = matrix @ x + shift, for a matrix that is dense, diagonal or sparse.

    >>> mix = ChannelMatrix(torch.ones(2, 2), columns=torch.tensor([[0, 1], [1, 1]]))
    >>> mix.matrix().tolist()
    [[1.0, 1.0], [0.0, 2.0]]
    >>> mix.times(torch.ones(2, 1)).tolist()
    [[2.0], [2.0]]
    """

    values: Tensor
    """(channel, channel), or (channel,) for the diagonal of a diagonal matrix, or (channel, value)
    for the values in each row of a sparse one."""
    shift: Tensor | None = None
    columns: Tensor | None = None
    """(channel, value), where the values of a sparse matrix are; those in the same place add up."""

    def to(self, dtype: torch.dtype) -> "ChannelMatrix":
        """The matrix with values of this type."""
        shift = None if self.shift is None else self.shift.to(dtype)
        return ChannelMatrix(self.values.to(dtype), shift, self.columns)

    def matrix(self) -> Tensor:
        """(channel, channel), or (channel,) if it is diagonal."""
        if self.columns is None:
            return self.values
        size = len(self.values)
        return self.values.new_zeros(size, size).scatter_add(1, self.columns, self.values)

    def times(self, other: Tensor) -> Tensor:
        """The product of the matrix, if it is not diagonal, and another matrix."""
        if self.columns is None:
            return self.values @ other
        return F.embedding_bag(self.columns, other, per_sample_weights=self.values, mode="sum")

    def transposed_times(self, grad: Tensor) -> Tensor:
        """The gradient of ``other``, from that of ``times(other)``."""
        if self.columns is None:
            return self.values.t() @ grad
        # the bags of the transposed matrix: the gradient of embedding_bag takes three times as long
        columns, places = self.columns.flatten().sort(stable=True)
        starts = torch.searchsorted(columns, torch.arange(len(self.values), device=columns.device))
        rows, values = places // self.columns.shape[1], self.values.flatten()[places]
        return F.embedding_bag(rows, grad, starts, per_sample_weights=values, mode="sum")

    def values_grad(self, other: Tensor, grad: Tensor) -> Tensor:
        """The gradient of the values, from that of ``times(other)``."""
        if self.columns is None:
            return grad @ other.t()
        with torch.enable_grad():
            values = self.values.detach().requires_grad_()
            product = self._replace(values=values).times(other)
        return torch.autograd.grad(product, values, grad)[0]


def joined(mixes: Sequence[ChannelMatrix]) -> ChannelMatrix:
    """One matrix of those of the parts of a layer's outputs, none of which is sparse.

    >>> joined([ChannelMatrix(torch.ones(1, 1)), ChannelMatrix(torch.ones(2, 2))]).values.tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    """
    if len(mixes) == 1:
        return mixes[0]
    values = [mix.values for mix in mixes]
    shifts = [mix.shift for mix in mixes if mix.shift is not None]
    diagonal = values[0].ndim == 1
    return ChannelMatrix(
        torch.cat(values) if diagonal else torch.block_diag(*values),  # type: ignore[no-untyped-call]
        torch.cat(shifts) if shifts else None,
    )


def sparse_mix(x: Tensor, mix: ChannelMatrix) -> Tensor:
    """A sparse matrix times the channels of feature maps, plus the shift.

    >>> mix = ChannelMatrix(torch.ones(2, 1), columns=torch.tensor([[1], [0]]))
    >>> sparse_mix(torch.tensor([1.0, 2.0]).view(1, 2, 1, 1), mix).flatten()
    tensor([2., 1.])
    """
    shift = None if mix.shift is None else mix.shift.to(x.dtype)
    out: Tensor = SparseMix.apply(x, mix.values.to(x.dtype), shift, mix.columns)  # type: ignore[no-untyped-call]
    return out


class SparseMix(torch.autograd.Function):
    """Works on one row of memory for each channel, also in the backward pass: an embedding_bag of
    columns takes seventy times as long as one of rows."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, values: Tensor, shift: Tensor | None, columns: Tensor
    ) -> Tensor:
        rows = _rows(x)
        mixed = ChannelMatrix(values, None, columns).times(rows)
        if shift is not None:
            mixed += shift[:, None]
        ctx.save_for_backward(rows if ctx.needs_input_grad[1] else None, values, columns)
        return _maps(mixed, x.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, values, columns = ctx.saved_tensors
        mix, grad_rows = ChannelMatrix(values, None, columns), _rows(grad)
        x_grad = values_grad = shift_grad = None
        if ctx.needs_input_grad[0]:
            x_grad = _maps(mix.transposed_times(grad_rows), grad.shape)
        if ctx.needs_input_grad[1]:
            values_grad = mix.values_grad(rows, grad_rows)
        if ctx.needs_input_grad[2]:
            shift_grad = grad_rows.sum(1)
        return x_grad, values_grad, shift_grad, None


def _rows(x: Tensor) -> Tensor:
    """(channel, pixel of any image), one after the other in memory."""
    return x.transpose(0, 1).flatten(1).contiguous()


def _maps(rows: Tensor, shape: torch.Size) -> Tensor:
    """The feature maps of this shape that have these rows, in channels-last memory."""
    order = 0, *range(2, len(shape)), 1
    maps = torch.empty_permuted(shape, order, dtype=rows.dtype, device=rows.device)
    maps.movedim(1, -1).view(-1, shape[1]).copy_(rows.t())
    return maps
