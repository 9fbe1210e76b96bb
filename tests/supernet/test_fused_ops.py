"""The fused operations against what they replace."""

import pytest
import torch

from transformable.supernet.fused_ops import add_weighted


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)]
)
def test_a_weighted_total_and_its_gradients(dtype: torch.dtype, tolerance: float) -> None:
    torch.manual_seed(0)
    x, total, to_x, to_total = torch.randn(4, 8, 5, 16, 16, dtype=torch.float64)
    weight = torch.tensor(0.3, dtype=torch.float64)
    inputs = [tensor.to(dtype).requires_grad_() for tensor in (x, weight, total)]
    same, summed = add_weighted(inputs[0], inputs[1], inputs[2] * 1)
    gradients = torch.autograd.grad(
        (same, summed), inputs, [to_x.to(dtype), to_total.to(dtype)], materialize_grads=True
    )
    expected = (x, total + 0.3 * x, to_x + 0.3 * to_total, (to_total * x).sum(), to_total)
    for found, right in zip((same, summed, *gradients), expected, strict=True):
        error = (found.double() - right).abs().max() / right.abs().max()
        assert error < tolerance


def test_the_gradient_of_a_mean_gets_the_layout_of_the_feature_maps() -> None:
    """As behind the last stage; in two layouts at once, each addition takes four times as long."""
    torch.manual_seed(0)
    maps = torch.randn(3, 2, 8, 4, 5, dtype=torch.float64).unbind()
    x, total, to_x = (t.contiguous(memory_format=torch.channels_last) for t in maps)
    weight = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    inputs = [x.requires_grad_(), total.requires_grad_()]
    same, summed = add_weighted(x, weight, total * 1)
    outputs = same, summed.mean((2, 3))
    upstream = torch.randn(2, 8, dtype=torch.float64)
    found = torch.autograd.grad(outputs, [*inputs, weight], [to_x, upstream])
    each = (upstream[:, :, None, None] / 20).expand(2, 8, 4, 5)
    for gradient, right in zip(found, (to_x + 0.3 * each, each, (each * x).sum()), strict=True):
        torch.testing.assert_close(gradient, right.detach(), rtol=1e-12, atol=1e-12)
    for gradient in found[:2]:
        assert gradient.is_contiguous(memory_format=torch.channels_last)
