"""The operations that a supernet adds to a network, fused so that they cost little.

Batch normalisation and a channel matrix are one 1x1 convolution: M (x - mean) / std + shift. The
outputs of a stage at its depths are added up as they come, while they are in the cache.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = [
    "add_aligned",
    "add_relu",
    "add_weighted",
    "as_kernel",
    "channel_products",
    "is_full_precision",
    "norm_then_matrix",
    "uses_batch_statistics",
]

POINTWISE = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
"""Of a 1x1 convolution: stride, padding, dilation, transposed, output padding, groups."""


def norm_then_matrix(
    x: Tensor, norm: nn.BatchNorm2d, matrix: Tensor, shift: Tensor | None, *, relu: bool = False
) -> Tensor:
    """``F.conv2d(norm(x), matrix[:, :, None, None], shift)``, for a norm without affine part.

    A matrix of one dimension is the diagonal of one, as in a plain batch norm. With `relu`, a relu
    follows, in place.

    >>> x, norm, matrix = torch.randn(2, 3, 4, 4), nn.BatchNorm2d(3, affine=False), torch.eye(3)
    >>> bool(torch.allclose(norm_then_matrix(x, norm, matrix, None), norm(x), atol=1e-5))
    True
    """
    if not uses_batch_statistics(norm) or (matrix.ndim == 2 and not is_full_precision(x)):
        x = norm(x)
        if matrix.ndim == 1:
            shape = -1, *[1] * (x.ndim - 2)
            x = x * matrix.view(shape) + (0 if shift is None else shift.view(shape))
        else:
            x = F.conv2d(x, as_kernel(matrix), shift)
        return F.relu(x) if relu else x
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    if matrix.ndim == 1:
        statistics = norm.running_mean, norm.running_var
        x = F.batch_norm(x, *statistics, matrix, shift, True, norm.momentum, norm.eps)
        return x.relu_() if relu else x
    if shift is None:
        shift = matrix.new_zeros(len(matrix))
    inputs = x, matrix, shift, norm, relu
    return NormThenMatrix.apply(*inputs)  # type: ignore[no-any-return,no-untyped-call]


def uses_batch_statistics(norm: nn.BatchNorm2d) -> bool:
    """Whether a norm is a plain one in training mode."""
    plain = type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d)
    return plain and norm.training and norm.track_running_stats and norm.momentum is not None


def is_full_precision(x: Tensor) -> bool:
    """Whether a tensor, and what is computed from it here, has 32 bits or more."""
    full = x.dtype in (torch.float32, torch.float64) and x.device.type in ("cpu", "cuda")
    return full and not torch.is_autocast_enabled(x.device.type)


class NormThenMatrix(torch.autograd.Function):
    """The backward pass gets the two sums of a batch norm from the gradient of M, which is needed
    anyway, so it takes one convolution and one pass over x. Like a batch norm, it saves only x."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, matrix: Tensor, shift: Tensor, norm: Any, relu: bool
    ) -> Tensor:
        statistics = norm.running_mean, norm.running_var
        mean, variance = torch.batch_norm_update_stats(x, *statistics, norm.momentum)
        scale = variance.add_(norm.eps).rsqrt_()
        folded = matrix * scale
        out = torch.conv2d(x, as_kernel(folded), shift.addmv(folded, mean, alpha=-1))
        if relu:
            out.relu_()
        # the next layer saves its input anyway, so saving the output of the relu is free
        ctx.save_for_backward(x, folded, mean, scale, out if relu else None)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, folded, mean, scale, out = ctx.saved_tensors
        if x.is_contiguous(memory_format=torch.channels_last):
            grad = grad.contiguous(memory_format=torch.channels_last)
        if out is not None:
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        # convolution_backward could return the sums too, but takes 1.5 times as long with them;
        # by image first, because a sum over all pixels at once uses one thread only
        sums = grad.sum((2, 3)).sum(0)
        matrix_grad = channel_products(grad, x).addr_(sums, mean, alpha=-1).mul_(scale)
        x_grad = None
        if ctx.needs_input_grad[0]:
            per_value = -x.shape[1] / x.numel()
            slope = (folded * matrix_grad).sum(0).mul_(scale).mul_(per_value)
            offset = torch.addmv(slope * mean, folded.t(), sums, beta=-1, alpha=per_value)
            x_grad = torch.conv2d(grad, as_kernel(folded.t()), offset)
            x_grad.addcmul_(x, slope.view(-1, 1, 1))
        return x_grad, matrix_grad, sums, None, None


def channel_products(a: Tensor, b: Tensor) -> Tensor:
    """The products of each channel of one tensor with each of another, summed over all pixels.

    It is the gradient of a 1x1 convolution: on many processors that is faster than a product of
    matrices.

    >>> a, b = torch.ones(2, 1, 3, 3), torch.ones(2, 4, 3, 3)
    >>> channel_products(a, b)
    tensor([[18., 18., 18., 18.]])
    """
    weights = a.new_empty(a.shape[1], b.shape[1], 1, 1)
    wanted = [False, True, False]
    products = torch.ops.aten.convolution_backward(a, b, weights, None, *POINTWISE, wanted)[1]
    return products.flatten(1)  # type: ignore[no-any-return]


def as_kernel(matrix: Tensor) -> Tensor:
    """A matrix over channels as the weights of a 1x1 convolution."""
    return matrix.view(*matrix.shape, 1, 1)


def add_relu(a: Tensor, b: Tensor, in_place: bool = False) -> Tensor:
    """``F.relu(a + b)`` with one tensor less in memory, or two less in place of ``a``.

    >>> add_relu(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]))
    tensor([2., 0.])
    """
    return (a.add_(b) if in_place and a.shape == b.shape else a + b).relu_()


def add_weighted(x: Tensor, weight: Tensor, total: Tensor | None) -> tuple[Tensor, Tensor]:
    """x itself, and ``total + weight * x``, in place of ``total``; no total counts as 0.

    One operation returns both, so that the backward pass adds their gradients in one pass.

    >>> add_weighted(torch.ones(1), torch.tensor(2.0), torch.ones(1))[1]
    tensor([3.])
    """
    return AddWeighted.apply(x, weight, total)  # type: ignore[no-any-return,no-untyped-call]


class AddWeighted(torch.autograd.Function):
    """Saves x and the weight, never their product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, total: Tensor | None) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(x, weight)
        ctx.set_materialize_grads(False)
        if total is None:
            return x, x * weight
        ctx.mark_dirty(total)
        return x, total.addcmul_(x, weight)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, x_grad: Tensor | None, total_grad: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        weight_grad = None
        if total_grad is not None:
            if x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last):
                # once for all depths, which pass it on; that of a mean has another layout
                total_grad = total_grad.contiguous(memory_format=torch.channels_last)
            if ctx.needs_input_grad[0]:
                if x_grad is None:
                    x_grad = total_grad * weight
                else:
                    x_grad = x_grad.addcmul(total_grad, weight)
            if ctx.needs_input_grad[1]:
                weight_grad = _dot(_flat(total_grad), _flat(x))
        return x_grad, weight_grad, total_grad if ctx.needs_input_grad[2] else None


def add_aligned(x: Tensor, matrix: Tensor, total: Tensor) -> Tensor:
    """``total`` plus the product of a constant matrix and the channels of ``x``.

    >>> x = torch.ones(1, 2, 1, 1)
    >>> add_aligned(x, torch.tensor([[1.0, 1.0], [0.0, 0.0]]), x).flatten()
    tensor([3., 1.])
    """
    return AddAligned.apply(x, matrix, total)  # type: ignore[no-any-return,no-untyped-call]


class AddAligned(torch.autograd.Function):
    """Adds the total in place of the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, total: Tensor) -> Tensor:
        ctx.save_for_backward(matrix)
        return _times(matrix, x).add_(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        [matrix] = ctx.saved_tensors
        return _times(matrix.to(grad.dtype).t(), grad), None, grad


def _times(matrix: Tensor, x: Tensor) -> Tensor:
    """A matrix times the channels of feature maps, which may have any number of axes."""
    if x.ndim == 4:
        return F.conv2d(x, as_kernel(matrix))
    return F.conv1d(x.flatten(2), matrix[:, :, None]).view(x.shape)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The product of two rows; ``torch.dot`` takes twenty times as long where they have 16 bits."""
    return torch.dot(a, b) if is_full_precision(a) else (a * b).sum()


def _flat(x: Tensor) -> Tensor:
    """As one row; a channels-last tensor in the order of its memory."""
    return (x.permute(0, 2, 3, 1) if x.ndim == 4 else x).reshape(-1)
