"""The budget of a search: a target cost with a band around it."""

import re
from dataclasses import dataclass, replace
from typing import Any, Self, get_args

from ..settings import Metric
from ..shape import Shape
from ..tracing.space import Space
from .cost import macs, params

__all__ = ["BandError", "Budget"]

MEASURES = {"macs": macs, "params": params}
NAMES = {"macs": "MACs", "params": "parameters"}
SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9}
# plain numbers up to this are fractions of the unpruned network
LARGEST_FRACTION = 10


class BandError(ValueError):
    """No network inside the band of a budget was found; a wider band may have one."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A target cost, and the band that a shape has to be in.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> Budget.of("0.5", space)
    Budget(metric='macs', value=20406597.0, low=19386268, high=21426926)
    >>> Budget.of("20M", space, tolerance=0.01).holds(20_100_000)
    True
    """

    metric: Metric
    value: float
    low: int
    high: int

    @classmethod
    def of(
        cls, amount: str | float, space: Space, *, metric: Metric = "macs", tolerance: float = 0.05
    ) -> Self:
        """From a fraction of the unpruned network (0.5) or a number of MACs or parameters (20M).

        Raises a ValueError if that is less than the smallest or more than the largest shape costs.
        """
        if metric not in MEASURES:
            raise ValueError(f"metric must be one of {', '.join(get_args(Metric))}, not {metric!r}")
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, not {tolerance}")
        shapes = (space.full, space.smallest, space.largest)
        costs = [MEASURES[metric](space, shape) for shape in shapes]
        full, smallest, largest = costs[0], min(costs), max(costs)
        value = _number(amount, full)
        if smallest == largest != value:
            reasons = (f"{name!r} is fixed because {why}" for name, why in space.fixed.items())
            why = next(reasons, "it has no layers between its input and its output")
            raise ValueError(f"nothing in this network may change: {why}")
        if not smallest <= value <= largest:
            raise ValueError(
                f"a budget of {amount} is {value:,.0f} {NAMES[metric]}, and this network can have "
                f"{smallest:,} to {largest:,} ({smallest / full:.3f} to {largest / full:.3f})"
            )
        return cls(metric=metric, value=value, low=0, high=0).within(tolerance)

    def within(self, tolerance: float) -> Self:
        """The same target with another band around it."""
        # the outermost whole numbers inside the band
        low, high = -int(-(1 - tolerance) * self.value // 1), int((1 + tolerance) * self.value)
        return replace(self, low=low, high=high)

    def cost(self, space: Space, shape: Shape) -> int:
        """The cost of a shape in the metric of this budget."""
        return MEASURES[self.metric](space, shape)

    def holds(self, cost: float) -> bool:
        """Whether a cost is inside the band."""
        return self.low <= cost <= self.high

    def target(self) -> dict[str, Any]:
        """The target as result files hold it: metric, value and band."""
        return {"metric": self.metric, "value": self.value, "low": self.low, "high": self.high}


def _number(amount: str | float, full: int) -> float:
    """The cost that an amount stands for, in a network that costs `full`."""
    pattern = r"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[0-9]+)?)\s*([%KMGB]?)\s*"
    found = re.fullmatch(pattern, str(amount), re.IGNORECASE)
    number = float(found[1]) if found else 0.0
    if not found or not number > 0:
        raise ValueError(
            f"a budget is a fraction (0.5) or a number (20M, 150K, 1.2G) above 0, not {amount!r}"
        )
    suffix = found[2].upper()
    if suffix == "%":
        return number / 100 * full
    if not suffix and number <= LARGEST_FRACTION:
        return number * full
    return number * SUFFIXES[suffix]
