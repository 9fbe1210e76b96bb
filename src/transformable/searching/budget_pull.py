"""The losses that pull the expected cost to the budget during a search."""

import math
from typing import Any

import torch
from torch import Tensor

from ..costing.budget import Budget

__all__ = ["Ceiling", "Multiplier", "piecewise"]


def piecewise(expected: Tensor, derived: float, budget: Budget) -> Tensor:
    """The paper's loss (eq. 8): log E if the derived cost is above the band, -log E if it is below,
    and 0 inside, with E the expected cost.

    >>> band = Budget(metric="macs", value=100.0, low=95, high=105)
    >>> [round(float(piecewise(torch.tensor(1000.0), f, band)), 3) for f in (90, 100, 110)]
    [-6.908, 0.0, 6.908]
    """
    if derived > budget.high:
        return expected.log()
    if derived < budget.low:
        return -expected.log()
    return torch.zeros_like(expected)


class Multiplier:
    """A Lagrange multiplier on the expected cost E, which rises while E is above the target R and
    falls while it is below: loss = value * h + h^2 / 2, value += rate * h, with h = log(E / R).

    >>> multiplier = Multiplier(100.0, rate=0.5)
    >>> round(float(multiplier(torch.tensor(200.0))), 3), round(multiplier.value, 3)
    (0.24, 0.347)
    """

    def __init__(self, target: float, rate: float = 0.05) -> None:
        self.target, self.rate = target, rate
        self.value = 0.0

    def __call__(self, expected: Tensor) -> Tensor:
        """The loss at the present value, which is then updated."""
        excess = expected.log() - math.log(self.target)
        loss = self.value * excess + excess.square() / 2
        self.value += self.rate * float(excess.detach())
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        self.value = state_dict["value"]


class Ceiling(Multiplier):
    """A Lagrange multiplier that only pulls down: it is never below 0.

    >>> ceiling = Ceiling(100.0, rate=0.5)
    >>> float(ceiling(torch.tensor(50.0))), ceiling.value
    (0.0, 0.0)
    """

    def __call__(self, expected: Tensor) -> Tensor:
        excess = expected.log() - math.log(self.target)
        loss = self.value * excess + excess.relu().square() / 2
        self.value = max(0.0, self.value + self.rate * float(excess.detach()))
        return loss
