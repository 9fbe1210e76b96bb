"""The two operations that a search adds to a network, at next to no cost.

Batch normalisation and the mixing of channels are one: M (x - mean) / std + shift. The statistics
are one pass over x; the rest is one 1x1 convolution, whose weights they are folded into. Going
back, the two sums that the norm needs are small products of the gradient of M, which is asked for
anyway: what is left is a convolution and one pass. Nothing but x is kept, as in a plain batch norm.

The outputs of a stage at its depths are added up as they come, while they are in the cache.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["add_relu", "aligned_sum", "norm_mix", "tap"]

POINTWISE = [1, 1], [0, 0], [1, 1], False, [0, 0], 1
"""A 1x1 convolution: stride, padding, dilation, transposed, output padding, groups."""


def norm_mix(
    x: Tensor, norm: nn.BatchNorm2d, matrix: Tensor, shift: Tensor | None, *, relu: bool = False
) -> Tensor:
    """The same as ``F.conv2d(norm(x), matrix[:, :, None, None], shift)``, of a norm without affine.

    A matrix of one dimension is a diagonal: that is what a plain batch norm does. A relu, if it is
    asked for, is done in place.

    >>> x, norm, matrix = torch.randn(2, 3, 4, 4), nn.BatchNorm2d(3, affine=False), torch.eye(3)
    >>> bool(torch.allclose(norm_mix(x, norm, matrix, None), norm(x), atol=1e-5))
    True
    """
    if not _usual(norm) or (matrix.ndim == 2 and not _exact(x)):
        x = norm(x)
        if matrix.ndim == 1:
            shape = -1, *[1] * (x.ndim - 2)
            x = x * matrix.view(shape) + (0 if shift is None else shift.view(shape))
        else:
            x = F.conv2d(x, _kernel(matrix), shift)
        return F.relu(x) if relu else x
    assert norm.num_batches_tracked is not None
    assert norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    if matrix.ndim == 1:
        statistics = norm.running_mean, norm.running_var
        x = F.batch_norm(x, *statistics, matrix, shift, True, norm.momentum, norm.eps)
        return x.relu_() if relu else x
    with torch.no_grad():
        mean, variance = torch.batch_norm_update_stats(
            x, norm.running_mean, norm.running_var, norm.momentum
        )
    if shift is None:
        shift = matrix.new_zeros(len(matrix))
    mixed: Tensor = NormMix.apply(  # type: ignore[no-untyped-call]
        x, matrix, shift, mean, (variance + norm.eps).rsqrt(), relu
    )
    return mixed


def _usual(norm: nn.BatchNorm2d) -> bool:
    plain = type(norm) in (nn.BatchNorm1d, nn.BatchNorm2d)
    learning = norm.training and norm.track_running_stats and norm.momentum is not None
    return plain and learning


def _exact(x: Tensor) -> bool:
    full = x.dtype in (torch.float32, torch.float64) and x.device.type in ("cpu", "cuda")
    return full and not torch.is_autocast_enabled(x.device.type)


class NormMix(torch.autograd.Function):
    """The gradients of the folded convolution, turned into those of the norm."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        matrix: Tensor,
        shift: Tensor,
        mean: Tensor,
        scale: Tensor,
        relu: bool,
    ) -> Tensor:
        folded = matrix * scale
        out = torch.conv2d(x, _kernel(folded), shift.addmv(folded, mean, alpha=-1))
        if relu:
            out.relu_()
        # the next layer keeps its input anyway, so a rectified output costs no memory
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
        # the convolution would give the sums too, but takes half as long again to do so
        sums = grad.permute(0, 2, 3, 1).flatten(0, 2).sum(0)
        products = torch.ops.aten.convolution_backward(
            grad, x, _kernel(folded), None, *POINTWISE, [False, True, False]
        )[1]
        of_matrix = products.flatten(1).addr_(sums, mean, alpha=-1).mul_(scale)
        of_x = None
        if ctx.needs_input_grad[0]:
            each = -x.shape[1] / x.numel()
            slope = (folded * of_matrix).sum(0).mul_(scale).mul_(each)
            offset = torch.addmv(slope * mean, folded.t(), sums, beta=-1, alpha=each)
            of_x = torch.conv2d(grad, _kernel(folded.t()), offset)
            of_x.addcmul_(x, slope.view(-1, 1, 1))
        return of_x, of_matrix, sums, None, None, None


def _kernel(matrix: Tensor) -> Tensor:
    """A matrix over channels as the weights of a 1x1 convolution."""
    return matrix.view(*matrix.shape, 1, 1)


def add_relu(a: Tensor, b: Tensor, in_place: bool = False) -> Tensor:
    """``F.relu(a + b)`` with one tensor less, or two if it may be done in place of ``a``.

    >>> add_relu(torch.tensor([1.0, -1.0]), torch.tensor([1.0, -1.0]))
    tensor([2., 0.])
    """
    return (a.add_(b) if in_place and a.shape == b.shape else a + b).relu_()


def tap(x: Tensor, weight: Tensor, total: Tensor | None) -> tuple[Tensor, Tensor]:
    """x itself, and ``total + weight * x`` (``weight * x`` without a total, which is overwritten).

    That both come out of one operation lets it add their gradients in one pass.

    >>> tap(torch.ones(1), torch.tensor(2.0), torch.ones(1))[1]
    tensor([3.])
    """
    result: tuple[Tensor, Tensor] = Tap.apply(x, weight, total)  # type: ignore[no-untyped-call]
    return result


class Tap(torch.autograd.Function):
    """No product of a weight and a tensor is ever kept."""

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
        ctx: Any, of_x: Tensor | None, of_total: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_weight = None
        if of_total is not None:
            if ctx.needs_input_grad[0]:
                product = of_total * weight if of_x is None else of_x.addcmul(of_total, weight)
                of_x = product
            if ctx.needs_input_grad[1]:
                of_weight = torch.dot(_flat(of_total), _flat(x))
        return of_x, of_weight, of_total if ctx.needs_input_grad[2] else None


def aligned_sum(x: Tensor, matrix: Tensor, total: Tensor) -> Tensor:
    """``total`` plus the product of a constant matrix and the channels of ``x``.

    >>> x = torch.ones(1, 2, 1, 1)
    >>> aligned_sum(x, torch.tensor([[1.0, 1.0], [0.0, 0.0]]), x).flatten()
    tensor([3., 1.])
    """
    result: Tensor = AlignedSum.apply(x, matrix, total)  # type: ignore[no-untyped-call]
    return result


class AlignedSum(torch.autograd.Function):
    """The sum is made in place of the product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, total: Tensor) -> Tensor:
        ctx.save_for_backward(matrix)
        return F.conv2d(x, _kernel(matrix)).add_(total)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        [matrix] = ctx.saved_tensors
        return F.conv2d(grad, _kernel(matrix.to(grad.dtype).t())), None, grad


def _flat(x: Tensor) -> Tensor:
    """As one row, in the order of its memory if it is channels-last."""
    return (x.permute(0, 2, 3, 1) if x.ndim == 4 else x).reshape(-1)
