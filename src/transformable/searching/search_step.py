"""One step of the search: the weights learn from one batch, then the sizes from another; or both
from one batch."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget, Limit, in_units
from ..seeds import generator
from ..settings import Searching
from ..supernet.supernet import SuperNet
from ..task import Classification, Objective, Task
from ..training.checkpoints import Stateful
from ..training.devices import average_gradients, sum_over_processes
from ..training.distill import with_answers
from ..training.train import lr_schedule, make_sgd, seed_step, split_batch
from .budget_pull import Ceiling, Multiplier, piecewise
from .drawn_sizes import DrawnSizes

__all__ = ["SearchStep", "temperature"]

Batch = tuple[Tensor, Tensor]
BETAS = (0.5, 0.999)


class SearchStep:
    """Both optimisers of a search; calling it does one step and returns its row of metrics.

    With a ``teacher``, its outputs are targets besides the labels, as in distillation.
    """

    def __init__(
        self,
        net: SuperNet,
        budget: Budget,
        settings: Searching,
        steps: int,
        fabric: Fabric,
        *,
        task: Task | None = None,
        teacher: nn.Module | None = None,
        epochs_after: float = 0.0,
    ) -> None:
        self.net, self.settings, self.fabric = net, settings, fabric
        self.task, self.teacher = task or Classification(), teacher
        self.objective = self._objective(settings.label_smoothing)
        self.objective_of_sizes = self._objective()
        self.accumulate = settings.accumulate
        self.total = settings.epochs * steps
        self.part = range(self.total)
        self.step = 0
        self.hold = round(settings.hold_epochs * steps)
        self.lr_at = lr_schedule(settings, steps, settings.epochs + epochs_after)
        self.weights, self.sizes = net.weight_parameters(), net.architecture_parameters()
        self.sgd = make_sgd(self.weights, settings)
        self.adam = torch.optim.Adam(
            self.sizes, lr=settings.arch_lr, betas=BETAS, weight_decay=settings.arch_weight_decay
        )
        self.multiplier = Multiplier(budget.value)
        self.ceilings = [Ceiling(limit.high) for limit in budget.at_most]
        self.drawn = DrawnSizes(net, fabric)
        self.aim_at(budget, self.part)

    def aim_at(self, budget: Budget, part: range) -> None:
        """Aim the cost penalty at a budget for these steps, in which the temperature falls and the
        probabilities sharpen."""
        self.budget, self.part, self.multiplier.target = budget, part, budget.value

    def parts(self) -> dict[str, Stateful]:
        """Everything that a checkpoint has to hold."""
        return {
            "net": self.net,
            "weights": self.sgd,
            "architecture": self.adam,
            "multiplier": self.multiplier,
            **{f"ceiling {i}": ceiling for i, ceiling in enumerate(self.ceilings)},
        }

    def set_temperature(self, step: int) -> None:
        """Set temperature and sharpness to those of this step."""
        done, last = step - self.part.start, max(1, len(self.part) - 1)
        self.net.tau = temperature(done, len(self.part), self.settings)
        self.net.sharpness = self.settings.sharpen ** (done / last)

    def __call__(
        self, step: int, seed: int, for_weights: Batch, for_sizes: Batch | None = None
    ) -> dict[str, Any]:
        """Both learn alternately, each from its batch; with one batch only, together from it."""
        self.step = step
        self.set_temperature(step)
        self.sgd.param_groups[0]["lr"] = self.lr_at(step)
        row: dict[str, Any] = {"tau": self.net.tau, "lr": self.lr_at(step)}
        self._seed("weights", seed, step)
        if for_sizes is not None:
            row |= self._weight_step(*for_weights)
        derived = self.budget.cost(self.net.space, self.net.argmax())
        expected = self._expected(self.budget)
        costs = {"derived": derived, "expected": float(expected.detach())}
        row |= {name: in_units(self.budget.metric, cost) for name, cost in costs.items()}
        if step < self.hold:
            if for_sizes is None:
                row |= self._weight_step(*for_weights)
            names = (name.removeprefix("weight_") for name in row if name.startswith("weight_"))
            row |= dict.fromkeys((*(f"architecture_{name}" for name in names), "cost_loss"))
        else:
            cost = self._cost_loss(expected, derived)
            if for_sizes is None:
                row |= self._shared_step(*for_weights, cost)
            else:
                self._seed("architecture", seed, step)
                row |= self._architecture_step(*for_sizes, cost)
            row |= {"cost_loss": float(cost.detach())}
        return row | {"discrepancy": self.net.discrepancy(), "entropy": self.net.entropy()}

    def _seed(self, phase: str, seed: int, step: int) -> None:
        """Seed the sizes by seed, step and phase, so that every process draws the same."""
        key = generator(f"sizes for the {phase}", seed, step).integers(2**63)
        self.net.generator.manual_seed(int(key))
        seed_step(self.fabric, f"step of the {phase}", seed, step)

    def _weight_step(self, x: Tensor, y: Tensor) -> dict[str, float]:
        with frozen(self.sizes):
            sums = self._learn(self.objective, x, y, None, self.sgd)
        return self._means("weight", sums)

    def _architecture_step(self, x: Tensor, y: Tensor, cost: Tensor) -> dict[str, float]:
        with frozen(self.weights):
            sums = self._learn(self.objective_of_sizes, x, y, cost, self.adam)
        return self._means("architecture", sums)

    def _shared_step(self, x: Tensor, y: Tensor, cost: Tensor) -> dict[str, float]:
        """One forward and one backward pass for the weights and the sizes."""
        sums = self._learn(self.objective, x, y, cost, self.sgd, self.adam)
        means = self._means("weight", sums)
        same = {f"architecture_{name[7:]}": value for name, value in means.items()}
        return {**means, **same}

    def _objective(self, label_smoothing: float = 0.0) -> Objective:
        """What the search minimises, besides the cost penalty."""
        of_labels = self.task.objective(label_smoothing)
        if self.teacher is None:
            return of_labels
        return with_answers(of_labels, self.teacher, self.task, self.fabric, kd="logits")

    def _learn(
        self,
        objective: Objective,
        x: Tensor,
        y: Tensor,
        cost: Tensor | None,
        *optimizers: torch.optim.Optimizer,
    ) -> dict[str, Tensor]:
        """Do a step with the gradients of the loss and of the cost; returns the means of the loss
        and of each score over the batch."""
        parameters = [
            parameter
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.requires_grad
        ]
        drawn = self.net.generator.get_state()
        means: dict[str, Tensor] = {}
        for number, part in enumerate(split_batch(x, y, self.accumulate)):
            self.net.generator.set_state(drawn)  # all parts go through the same sizes
            with self.fabric.autocast():
                outcome = objective(self.net, *part)
            loss = outcome["loss"] * (len(part[1]) / len(y))
            scores = self.task.training_sums(outcome["outputs"], part[1])
            own = {"loss": loss.detach()}
            own |= {name: total.to(loss) / len(y) for name, total in scores.items()}
            means = {name: value + means.get(name, 0) for name, value in own.items()}
            if number == 0 and cost is not None:
                loss = loss + cost.to(loss)
            gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient if number == 0 else parameter.grad + gradient
        average_gradients(self.fabric, parameters)
        self.drawn.add()
        for optimizer in optimizers:
            optimizer.step()
        return means

    def _expected(self, limit: Limit) -> Tensor:
        return limit.expected(self.net.expectation, self.net.probabilities())

    def _cost_loss(self, expected: Tensor, derived: int) -> Tensor:
        if self.settings.pull == "multiplier":
            loss = self.multiplier(expected)
        else:
            loss = piecewise(expected, derived, self.budget)
        for ceiling, limit in zip(self.ceilings, self.budget.at_most, strict=True):
            loss = loss + ceiling(self._expected(limit))
        return self.settings.lambda_cost * loss

    def _means(self, phase: str, own: dict[str, Tensor]) -> dict[str, float]:
        """The means of a step over all processes, named by its phase."""
        sums = sum_over_processes(self.fabric, torch.stack([*own.values()])).tolist()
        names = [f"{phase}_{name}" for name in own]
        means = {
            name: value / self.fabric.world_size for name, value in zip(names, sums, strict=True)
        }
        if not math.isfinite(means[f"{phase}_loss"]):
            rate = "arch_lr" if phase == "architecture" else "lr"
            raise ValueError(
                f"the {phase} loss of the search is not a finite number at step {self.step + 1}; "
                f"use a lower {rate}, or more warmup_epochs"
            )
        return means


@contextlib.contextmanager
def frozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Within the context, no gradients are computed for these parameters."""
    trainable = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


def temperature(step: int, total: int, settings: Searching) -> float:
    """The temperature of a step: from `tau_start` at the first to `tau_end` at the last.

    >>> settings = Searching(tau_start=10.0, tau_end=0.1)
    >>> [round(temperature(step, 5, settings), 3) for step in range(5)]
    [10.0, 7.525, 5.05, 2.575, 0.1]
    """
    part = step / max(1, total - 1)
    if settings.tau_fall == "cosine":
        part = (1 - math.cos(math.pi * part)) / 2
    return settings.tau_start + (settings.tau_end - settings.tau_start) * part
