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
