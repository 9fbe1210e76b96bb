"""The linear map over channels that the drawn candidates of a layer make together."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["ChannelMatrix"]


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

    def matrix(self) -> Tensor:
        """(channel, channel), or (channel,) if it is diagonal."""
        if self.columns is None:
            return self.values
        size = len(self.values)
        return self.values.new_zeros(size, size).scatter_add(1, self.columns, self.values)

    def times(self, other: Tensor) -> Tensor:
        """The product of the matrix and another matrix."""
        if self.columns is not None:
            return F.embedding_bag(self.columns, other, per_sample_weights=self.values, mode="sum")
        return self.values @ other if self.values.ndim == 2 else self.values[:, None] * other

    def times_backward(self, other: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of the values and of ``other``, from that of ``times(other)``."""
        if self.columns is None and self.values.ndim == 2:
            return grad @ other.t(), self.values.t() @ grad
        if self.columns is None:
            return torch.linalg.vecdot(grad, other), self.values[:, None] * grad
        with torch.enable_grad():
            leaves = self.values.detach().requires_grad_(), other.detach().requires_grad_()
            product = self._replace(values=leaves[0]).times(leaves[1])
        values_grad, other_grad = torch.autograd.grad(product, leaves, grad)
        return values_grad, other_grad
