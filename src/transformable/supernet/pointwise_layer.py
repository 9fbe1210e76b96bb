"""A pointwise convolution, its batch norm and the channel matrix behind them as one matrix product.

The batch statistics of a pointwise convolution follow from those of its input: with W the weights,
m the mean and K the covariance of the input over all pixels, the output has the mean W m and the
variance diag(W K W^T). So the layer is M diag(1/std) W (x - m) + shift, and neither the output of
the convolution nor that of the norm is ever made. K takes C_in^2 operations a pixel, where M alone
would take C_out^2: this pays for the layers with more outputs than inputs.

Where there are few pixels, the products of matrices without pixels would cost more than they save,
and the matrix M is applied to the output of the norm instead.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .channel_matrix import ChannelMatrix
from .fused_ops import as_kernel, channel_products, is_full_precision, uses_batch_statistics

__all__ = ["is_expanding", "merges", "pointwise_norm_mix"]


def is_expanding(layer: nn.Module, norm: nn.Module | None) -> bool:
    """Whether a layer is a pointwise convolution with more outputs than inputs before a norm.

    >>> is_expanding(nn.Conv2d(2, 8, 1, bias=False), nn.BatchNorm2d(8))
    True
    """
    return (
        type(layer) is nn.Conv2d
        and type(norm) is nn.BatchNorm2d
        and layer.kernel_size == (1, 1)
        and layer.padding == (0, 0)
        and layer.groups == 1
        and layer.bias is None
        and layer.in_channels < layer.out_channels
    )


def merges(x: Tensor, layer: nn.Conv2d, norm: nn.BatchNorm2d, mix: ChannelMatrix) -> bool:
    """Whether an expanding layer should be computed here as one product."""
    # the other way is cheap with a sparse matrix: at four pixels a channel it takes 0.86 of the
    # time of this one, at eight 1.17; a dense matrix takes C_out^2 operations a pixel there
    least = layer.in_channels if mix.columns is None else 6 * layer.in_channels
    enough = _strided(x, layer.stride)[:, 0].numel() >= least
    return enough and uses_batch_statistics(norm) and is_full_precision(x)


def pointwise_norm_mix(
    x: Tensor, layer: nn.Conv2d, norm: nn.BatchNorm2d, mix: ChannelMatrix, *, relu: bool = False
) -> Tensor:
    """The mixed output of an expanding layer, for a norm without affine part in training mode.

    >>> layer, norm = nn.Conv2d(2, 3, 1, bias=False), nn.BatchNorm2d(3, affine=False)
    >>> x, mix = torch.randn(4, 2, 5, 5), ChannelMatrix(torch.eye(3))
    >>> y = pointwise_norm_mix(x, layer, norm, mix)
    >>> bool(torch.allclose(y, norm(layer(x)), atol=1e-5))
    True
    """
    weight, shift = layer.weight.flatten(1), mix.shift
    if shift is None:
        shift = weight.new_zeros(len(weight))
    out: Tensor = PointwiseNormMix.apply(  # type: ignore[no-untyped-call]
        x, weight, mix.values, shift, mix.columns, layer.stride, norm, relu
    )
    return out


class PointwiseNormMix(torch.autograd.Function):
    """Saves the input and matrices of weights, nothing that has pixels and output channels."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        values: Tensor,
        shift: Tensor,
        columns: Tensor | None,
        stride: tuple[int, ...],
        norm: nn.BatchNorm2d,
        relu: bool,
    ) -> Tensor:
        ctx.size, ctx.stride = x.shape, stride
        x = _strided(x, stride).contiguous(memory_format=torch.channels_last)
        count = x.numel() // x.shape[1]
        mean = x.mean((2, 3)).mean(0)
        # centred first: else large means would cancel, and with them the precision of K
        centred = x - mean.view(-1, 1, 1)
        spread = weight @ channel_products(centred, centred).div_(count)  # W K
        del centred
        variance = torch.linalg.vecdot(spread, weight).clamp_(min=0)
        _update_statistics(norm, weight @ mean, variance, count)
        scale = (variance + norm.eps).rsqrt_()
        normalised = weight * scale[:, None]
        merged = ChannelMatrix(values, None, columns).times(normalised)
        bias = torch.addmv(shift, merged, mean, alpha=-1)
        out = torch.conv2d(x, as_kernel(merged), bias)
        if relu:
            out.relu_()
        ctx.save_for_backward(
            x, weight, values, columns, mean, spread, scale, merged, out if relu else None
        )
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, values, columns, mean, spread, scale, merged, out = ctx.saved_tensors
        grad = grad.contiguous(memory_format=torch.channels_last)
        if out is not None:
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        count = x.numel() // x.shape[1]
        sums = grad.sum((2, 3)).sum(0)
        merged_grad = channel_products(grad, x).addr_(sums, mean, alpha=-1)
        mix = ChannelMatrix(values, None, columns)
        values_grad = mix.values_grad(weight * scale[:, None], merged_grad)
        normalised_grad = mix.transposed_times(merged_grad)
        # of half the variance
        slope = torch.linalg.vecdot(normalised_grad, weight).mul_(scale**3).neg_()
        x_grad = weight_grad = None
        if ctx.needs_input_grad[0]:
            # grads A + (x - m) W^T diag(slope / n) W, less the mean over the n pixels
            square = weight.t() @ (weight * (slope / count)[:, None])
            offset = torch.addmv(square @ mean, merged.t(), sums, alpha=1 / count).neg_()
            x_grad = torch.conv2d(x, as_kernel(square), offset)
            x_grad.add_(torch.conv2d(grad, as_kernel(merged.t().contiguous())))
            x_grad = _at_stride(x_grad, ctx.size, ctx.stride)
        if ctx.needs_input_grad[1]:
            weight_grad = normalised_grad.mul_(scale[:, None]).addcmul_(spread, slope[:, None])
        return x_grad, weight_grad, values_grad, sums, None, None, None, None


def _strided(x: Tensor, stride: tuple[int, ...]) -> Tensor:
    return x if stride == (1, 1) else x[:, :, :: stride[0], :: stride[1]]


def _at_stride(grad: Tensor, size: torch.Size, stride: tuple[int, ...]) -> Tensor:
    """The gradient of `_strided`, in channels-last memory: torch's own is not, and neither would be
    all that is added to it."""
    if stride == (1, 1):
        return grad
    whole = torch.empty_permuted(size, (0, 2, 3, 1), dtype=grad.dtype, device=grad.device).zero_()
    _strided(whole, stride).copy_(grad)
    return whole


def _update_statistics(norm: nn.BatchNorm2d, mean: Tensor, variance: Tensor, count: int) -> None:
    assert norm.num_batches_tracked is not None
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.momentum is not None
    norm.num_batches_tracked.add_(1)
    norm.running_mean.lerp_(mean.to(norm.running_mean), norm.momentum)
    unbiased = variance.to(norm.running_var) * (count / max(1, count - 1))
    norm.running_var.lerp_(unbiased, norm.momentum)
