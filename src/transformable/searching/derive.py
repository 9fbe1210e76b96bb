"""From distributions to a shape: the most probable one that the budget allows."""

from dataclasses import dataclass, replace

import numpy as np
import torch

from ..costing.budget import Budget
from ..costing.expected_cost import Chances
from ..shape import Shape
from ..tracing.space import Space
from .integer_program import most_probable

__all__ = ["Derived", "check_possible", "derive"]


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A shape, and how probable it is beside the most probable one of all."""

    shape: Shape
    cost: int
    how: str
    """``argmax``, or ``constrained`` if the argmax is outside the band."""
    log_probability: float
    given_up: float
    """Log-probability of the argmax minus that of this shape."""


def check_possible(space: Space, budget: Budget) -> None:
    """A ValueError if no shape at all is inside the band."""
    candidates = {**space.widths, **space.depths}
    even = {name: torch.full((len(sizes),), 1 / len(sizes)) for name, sizes in candidates.items()}
    try:
        derive(even, space, budget)
    except ValueError as error:
        raise ValueError(f"{error}; {_nearest(even, space, budget)}") from None


def _nearest(even: Chances, space: Space, budget: Budget) -> str:
    """In words, a cost that is possible, from ever wider bands."""
    for times in (2, 4, 8, 16):
        low, high = (budget.value + times * (e - budget.value) for e in (budget.low, budget.high))
        try:
            wide = replace(budget, low=int(low), high=int(high))
            return f"one with {derive(even, space, wide).cost:,} is near"
        except ValueError:
            continue
    return "none is near"


def derive(chances: Chances, space: Space, budget: Budget) -> Derived:
    """The most probable shape inside the band; a ValueError if there is none.

    >>> import torch
    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> candidates = {**space.widths, **space.depths}
    >>> likes_it_wide = {n: torch.arange(len(c)).float().softmax(0) for n, c in candidates.items()}
    >>> found = derive(likes_it_wide, space, Budget.of(0.5, space))
    >>> found.how, 0.475 <= found.cost / 40_813_194 <= 0.525
    ('constrained', True)
    """
    # a probability of 0 is one that was rounded
    logs = {
        name: np.log(np.maximum(p.detach().cpu().double().numpy(), 1e-30))
        for name, p in chances.items()
    }
    top = {name: int(values.argmax()) for name, values in logs.items()}
    found: dict[str, int] | None = top
    if not budget.holds(budget.cost(space, space.at(top))):
        found = most_probable(logs, space, budget)
    if found is None:
        raise ValueError(
            f"no shape of this network has {budget.low:,} to {budget.high:,} {budget.metric}; "
            "use a larger tolerance or more candidates"
        )
    shape = space.at(found)
    value, best = (sum(float(logs[n][i]) for n, i in at.items()) for at in (found, top))
    return Derived(
        shape=shape,
        cost=budget.cost(space, shape),
        how="argmax" if found is top else "constrained",
        log_probability=value,
        given_up=best - value,
    )
