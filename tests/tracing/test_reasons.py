"""What a network says of the layers that keep their width, and what need not be among them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.agreement import agreeing_space


class Network(nn.Module):
    """Two layers, a function of the second one's output, and a head."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor], part: nn.Module | None = None) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1)
        self.part = part
        self.gamma = nn.Parameter(torch.rand(8, 1, 1))
        self.head = nn.Linear(8, 5)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        x = self.run(self, self.b(F.relu(self.a(x))))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


def conv(c_out: int) -> nn.Module:
    return nn.Conv2d(8, c_out, 3, padding=1)


PARAMETER = "it meets 'gamma' in 'mul', a parameter outside of layers, which keeps its size"
FIXED: list[tuple[Callable[[Any, Tensor], Any], nn.Module | None, str]] = [
    (lambda net, x: net.gamma * x, None, PARAMETER),
    (lambda net, x: x * net.gamma.reshape(1, -1, 1, 1), None, PARAMETER),
    (lambda net, x: x.softmax(1), None, "'softmax' is over the channels"),
    (lambda net, x: F.softmax(x, dim=1), None, "'softmax' is over the channels"),
    (
        lambda net, x: net.part(x),
        nn.ConvTranspose2d(8, 8, 2, groups=2),
        "'part' is a transposed convolution in groups (2)",
    ),
]


@pytest.mark.parametrize(("run", "part", "reason"), FIXED)
def test_reasons(run: Any, part: nn.Module | None, reason: str) -> None:
    space = tas.Space.trace(Network(run, part), (3, 8, 8))
    assert space.fixed["b"] == reason
    assert list(space.widths) == ["a"]


FREE: list[tuple[Callable[[Any, Tensor], Any], nn.Module, list[str]]] = [
    (lambda net, x: torch.add(x, net.part(x), alpha=2), conv(8), ["a", "b"]),
    (lambda net, x: torch.maximum(x, net.part(x)), conv(8), ["a", "b"]),
    (lambda net, x: x.minimum(net.part(x)), conv(8), ["a", "b"]),
    (lambda net, x: F.glu(net.part(x), 1), conv(16), ["a", "b", "part[0]"]),
    (lambda net, x: F.glu(net.part(x)), nn.Conv2d(8, 8, 1), ["a", "b", "part"]),
    (lambda net, x: net.part(x), nn.Sequential(conv(16), nn.GLU(1)), ["a", "b", "part.0[0]"]),
]


@pytest.mark.parametrize(("run", "part", "widths"), FREE)
def test_operations_that_are_exact(run: Any, part: nn.Module, widths: list[str]) -> None:
    space = agreeing_space(Network(run, part))
    assert list(space.widths) == widths
    assert space.fixed == {}
