"""From probabilities to a shape: the most probable one inside the band of a budget."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..costing.budget import BandError, Budget, describe_cost
from ..costing.corrections import settle
from ..costing.expected_cost import Probabilities
from ..shape import Shape
from ..tracing.space import Space
from .integer_program import GaveUpError, most_probable

__all__ = ["Derived", "check_possible", "derive", "is_possible", "settled_shape"]

PATHS = 8


@dataclass(frozen=True, kw_only=True)
class Derived:
    """A shape, and how probable it is in comparison with the most probable one."""

    shape: Shape
    cost: int
    how: str
    """``argmax``; ``constrained`` if the argmax is outside the band; ``judged`` if another probable
    shape was better on held-out images."""
    log_probability: float
    given_up: float
    """Log-probability of the argmax minus that of this shape."""
    time: int | None = None
    """Its measured time in nanoseconds, if the budget or a limit beside it is a latency."""


def check_possible(space: Space, budget: Budget) -> None:
    """Raise a ValueError if no shape is inside the band.

    The integer program is solved only if a few quick attempts find no such shape.
    """
    if any(budget.allows(space, shape) for shape in _near_target(space, budget)):
        return
    uniform = {n: torch.full((len(c),), 1 / len(c)) for n, c in space.candidates.items()}
    try:
        derive(uniform, space, budget)
    except ValueError as error:
        raise BandError(f"{error}{_nearest_cost(uniform, space, budget)}") from None


def is_possible(space: Space, budget: Budget) -> bool:
    """Whether a shape is inside the band."""
    try:
        check_possible(space, budget)
    except ValueError:
        return False
    return True


def _near_target(space: Space, budget: Budget) -> Iterator[Shape]:
    """Shapes near the target, by bisection on paths from the smallest to the largest shape.

    A path takes one layer or stage at a time to its next candidate: on the first path all grow
    evenly, on the others in random order.
    """
    steps = sorted(
        (i / len(c), name) for name, c in space.candidates.items() for i in range(1, len(c))
    )
    path = [name for _, name in steps]
    generator = random.Random(0)
    for _ in range(PATHS):
        low, high = 0, len(path)
        while low <= high:
            middle = (low + high) // 2
            taken = Counter(path[:middle])
            shape = space.shape_at({name: taken[name] for name in space.candidates})
            yield shape
            if budget.cost(space, shape) < budget.value:
                low = middle + 1
            else:
                high = middle - 1
        generator.shuffle(path)


def _nearest_cost(uniform: Probabilities, space: Space, budget: Budget) -> str:
    """A cost that is possible, found in wider and wider bands, as the end of a message; empty if
    the solver gives up."""
    known = True
    for times in (2, 4, 8, 16):
        low, high = (budget.value + times * (e - budget.value) for e in (budget.low, budget.high))
        try:
            wide = replace(budget, low=int(low), high=int(high))
            cost = derive(uniform, space, wide).cost
            return f"; a shape with {describe_cost(budget.metric, cost)} is near"
        except GaveUpError:
            known = False
        except BandError:
            continue
    return "; no shape is near" if known else ""


def derive(probabilities: Probabilities, space: Space, budget: Budget) -> Derived:
    """The most probable shape inside the band; raises a ValueError if there is none.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> sizes = space.candidates
    >>> prefers_wide = {name: torch.arange(len(sizes[name])).float().softmax(0) for name in sizes}
    >>> found = derive(prefers_wide, space, Budget.of(0.5, space))
    >>> found.how, 0.475 <= found.cost / 40_813_194 <= 0.525
    ('constrained', True)
    """
    # a probability of 0 is a rounded one
    logs = {
        name: np.log(np.maximum(p.detach().cpu().double().numpy(), 1e-30))
        for name, p in probabilities.items()
    }
    argmax = {name: int(values.argmax()) for name, values in logs.items()}
    found = argmax
    if not budget.allows(space, space.shape_at(argmax)):
        found = most_probable(logs, space, budget)
    shape = space.shape_at(found)
    value, best = (sum(float(logs[n][i]) for n, i in at.items()) for at in (found, argmax))
    return Derived(
        shape=shape,
        cost=budget.cost(space, shape),
        how="argmax" if found is argmax else "constrained",
        log_probability=value,
        given_up=best - value,
    )


def settled_shape(probabilities: Probabilities, space: Space, budget: Budget) -> Derived:
    """The same; if the budget or a limit beside it is a latency, the network is timed, and the
    shape is derived again with corrected times until the measured time is inside the band."""
    found: dict[str, Derived] = {}

    def find(budget: Budget) -> Shape:
        derived = derive(probabilities, space, budget)
        found[derived.shape.to_json()] = derived
        return derived.shape

    settled = settle(find(budget), find, space, budget)
    derived = found[settled.shape.to_json()]
    return replace(derived, cost=settled.cost, time=settled.time)
