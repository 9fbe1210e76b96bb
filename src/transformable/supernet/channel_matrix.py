"""The linear map over channels that the drawn candidates of a layer make together."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

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

    def times_backward(self, other: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the values and of ``other``, from that of ``times(other)``."""
        if self.columns is None:
            return grad @ other.t(), self.values.t() @ grad
        with torch.enable_grad():
            leaves = self.values.detach().requires_grad_(), other.detach().requires_grad_()
            product = self._replace(values=leaves[0]).times(leaves[1])
        values_grad, other_grad = torch.autograd.grad(product, leaves, grad)
        return values_grad, other_grad


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
    n, c = x.shape[:2]
    mixed = mix._replace(values=mix.values.to(x.dtype)).times(x.transpose(0, 1).flatten(1))
    if mix.shift is not None:
        mixed = mixed + mix.shift.to(x.dtype)[:, None]
    return mixed.t().contiguous().view(n, *x.shape[2:], c).movedim(-1, 1)
