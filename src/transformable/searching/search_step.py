"""One step of the search: the weights learn from one batch, then the sizes from another."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..seeds import generator
from ..settings import Searching
from ..supernet.supernet import SuperNet
from ..training.checkpoints import Part
from ..training.devices import add_up, average
from ..training.train import rate_by_step, seed_step, sgd
from .budget_pull import Multiplier, piecewise

__all__ = ["Alternate", "temperature"]

Batch = tuple[Tensor, Tensor]
BETAS = (0.5, 0.999)


class Alternate:
    """Both optimisers of a search; calling it does one step and gives its row of metrics."""

    def __init__(
        self, net: SuperNet, budget: Budget, settings: Searching, steps: int, fabric: Fabric
    ) -> None:
        self.net, self.budget, self.settings, self.fabric = net, budget, settings, fabric
        self.total = settings.epochs * steps
        self.hold = round(settings.hold_epochs * steps)
        self.rate = rate_by_step(settings, steps)
        self.weights, self.sizes = net.weight_parameters(), net.architecture_parameters()
        self.sgd = sgd(self.weights, settings)
        self.adam = torch.optim.Adam(
            self.sizes,
            lr=settings.arch_lr,
            betas=BETAS,
            weight_decay=settings.arch_weight_decay,
        )
        self.multiplier = Multiplier(budget.value)
        self.expected = {"macs": net.expected_macs, "params": net.expected_params}[budget.metric]

    def parts(self) -> dict[str, Part]:
        """All that has a state."""
        return {
            "net": self.net,
            "weights": self.sgd,
            "architecture": self.adam,
            "multiplier": self.multiplier,
        }

    def __call__(self, step: int, seed: int, ours: Batch, theirs: Batch) -> dict[str, Any]:
        self.net.tau = temperature(step, self.total, self.settings)
        self.sgd.param_groups[0]["lr"] = self.rate(step)
        row: dict[str, Any] = {"tau": self.net.tau, "lr": self.rate(step)}
        self._draw("weights", seed, step)
        row |= self._scores("weight", *self._weight_step(*ours))
        derived = self.budget.cost(self.net.space, self.net.argmax())
        expected = self.expected()
        row |= {"derived": derived, "expected": float(expected.detach())}
        if step >= self.hold:
            self._draw("architecture", seed, step)
            cost = self._cost_loss(expected, derived)
            row |= self._scores("architecture", *self._architecture_step(*theirs, cost))
            row |= {"cost_loss": float(cost.detach())}
        else:
            row |= dict.fromkeys(("architecture_loss", "architecture_accuracy", "cost_loss"))
        return row | {"discrepancy": self.net.discrepancy(), "entropy": self.net.entropy()}

    def _draw(self, phase: str, seed: int, step: int) -> None:
        """Sizes are a function of seed, step and phase: the same in every process."""
        key = generator(f"sizes for the {phase}", seed, step).integers(2**63)
        self.net.generator.manual_seed(int(key))
        seed_step(self.fabric, f"step of the {phase}", seed, step)

    def _weight_step(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        with frozen(self.sizes):
            logits, loss = self._forward(x, y, self.settings.label_smoothing)
            self._descend(loss, self.weights, self.sgd)
        return loss, _right(logits, y)

    def _architecture_step(self, x: Tensor, y: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        with frozen(self.weights):
            logits, loss = self._forward(x, y)
            self._descend(loss + cost.to(loss), self.sizes, self.adam)
        return loss, _right(logits, y)

    def _forward(self, x: Tensor, y: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        with self.fabric.autocast():
            logits = self.net(x)
        return logits, F.cross_entropy(logits.float(), y, label_smoothing=smoothing)

    def _descend(
        self, loss: Tensor, parameters: Sequence[nn.Parameter], optimizer: torch.optim.Optimizer
    ) -> None:
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = average(self.fabric, gradient)
        optimizer.step()

    def _cost_loss(self, expected: Tensor, derived: int) -> Tensor:
        weight = self.settings.lambda_cost
        if self.settings.pull == "multiplier":
            return weight * self.multiplier(expected)
        return weight * piecewise(expected, derived, self.budget)

    def _scores(self, phase: str, loss: Tensor, right: Tensor) -> dict[str, float]:
        sums = torch.stack([loss.detach(), right.to(loss)])
        (total, accuracy) = (s / self.fabric.world_size for s in add_up(self.fabric, sums))
        if not math.isfinite(total):
            raise ValueError(f"the {phase} loss of the search is not a finite number; lower the lr")
        return {f"{phase}_loss": total, f"{phase}_accuracy": accuracy}


@contextlib.contextmanager
def frozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """What a step does not update is not differentiated, and costs it nothing."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def temperature(step: int, total: int, settings: Searching) -> float:
    """From `tau_start` at the first step to `tau_end` at the last.

    >>> [round(temperature(step, 5, Searching()), 3) for step in range(5)]
    [10.0, 7.525, 5.05, 2.575, 0.1]
    """
    part = step / max(1, total - 1)
    if settings.tau_fall == "cosine":
        part = (1 - math.cos(math.pi * part)) / 2
    return settings.tau_start + (settings.tau_end - settings.tau_start) * part


def _right(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.detach().argmax(1) == y).float().mean()
