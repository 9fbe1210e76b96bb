"""The budget of a search: a target cost with a band around it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self, get_args

from torch import Tensor

from ..settings import Metric
from ..shape import Shape
from ..tracing.fixed_layers import like_reasons
from ..tracing.space import Space
from .cost import layer_costs, macs, params
from .expected_cost import Expectation, Probabilities
from .latency import Latency
from .possible_masks import PossibleMasks
from .terms import Term, count_terms

__all__ = [
    "BandError",
    "Budget",
    "Limit",
    "OutOfReachError",
    "describe_cost",
    "in_units",
    "limit_of",
]

NAMES = {"macs": "MACs", "params": "parameters"}
SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9}
NANOSECONDS = {"NS": 1, "US": 10**3, "MS": 10**6, "S": 10**9}
# plain numbers up to this are fractions of the unpruned network
LARGEST_FRACTION = 10
REASONS = 3  # reasons that the message names if nothing may change
MARGIN = 0.02  # of a time that is promised: what is measured again differs by about a hundredth


class BandError(ValueError):
    """No network inside the band of a budget was found; a wider band may have one."""


def describe_cost(metric: Metric, *costs: float) -> str:
    """A cost, or the ends of a band, in words.

    >>> describe_cost("macs", 19_386_268, 21_426_926), describe_cost("latency", 1_234_567)
    ('19,386,268 to 21,426,926 MACs', '1.235 ms')
    """
    if metric == "latency":
        return " to ".join(f"{cost / 1e6:.4g}" for cost in costs) + " ms"
    return " to ".join(f"{cost:,.0f}" for cost in costs) + f" {NAMES[metric]}"


class OutOfReachError(ValueError):
    """No shape of the network can have what is asked for; other candidate sizes may reach it."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The most that a shape may cost in another metric than that of the budget."""

    metric: Metric
    high: int
    latency: Latency | None = field(default=None, repr=False, compare=False)

    def cost(self, space: Space, shape: Shape) -> int:
        """The cost of a shape in this metric; a latency is in nanoseconds."""
        if self.metric == "latency":
            return _measured(self.latency).cost(space, shape)
        return (macs if self.metric == "macs" else params)(space, shape)

    def by_layer(self, space: Space) -> dict[str, float]:
        """The cost of each layer of the full network."""
        if self.metric == "latency":
            return _measured(self.latency).by_layer(space, space.full)
        return {row.name: getattr(row, self.metric) for row in layer_costs(space, space.full)}

    def terms(self, space: Space, masks: PossibleMasks) -> Iterator[Term]:
        """The cost of all shapes, as a sum of terms."""
        if self.metric == "latency":
            return _measured(self.latency).terms(masks)
        return count_terms(space, masks, self.metric)

    def expected(self, expectation: Expectation, probabilities: Probabilities) -> Tensor:
        """The mean cost."""
        if self.metric == "latency":
            return expectation.latency(probabilities, _measured(self.latency))
        return getattr(expectation, self.metric)(probabilities)  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class Budget(Limit):
    """A target cost, and the band that a shape has to be in; a latency is in nanoseconds.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> Budget.of("0.5", space).value, Budget.of("0.5", space).band
    (20406597.0, '19,386,268 to 21,426,926 MACs')
    >>> Budget.of("20M", space, tolerance=0.01).holds(20_100_000)
    True
    """

    value: float
    """The target."""
    low: int
    """The least that a shape may cost."""
    at_most: tuple[Limit, ...] = ()
    """What a shape may cost at most in other metrics."""

    @classmethod
    def of(
        cls,
        amount: str | float,
        space: Space,
        *,
        metric: Metric = "macs",
        tolerance: float = 0.05,
        latency: Latency | None = None,
        at_most: tuple[Limit, ...] = (),
    ) -> Self:
        """From a fraction of the unpruned network (0.5), a number of MACs or parameters (20M) or,
        for a ``latency``, a time (3ms).

        Raises a ValueError if that is less than the smallest or more than the largest shape costs.
        """
        if not 0 < tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, not {tolerance}")
        full, least, most, value = _asked(amount, space, metric, latency)
        if space.smallest == space.largest and value != full:
            why = _why_nothing(space)
            raise OutOfReachError(f"nothing in this network may change: {why}")
        if not least <= value <= most:
            can = "take about" if latency else "have"
            raise OutOfReachError(
                f"a budget of {amount} is {describe_cost(metric, value)}, and this network can "
                f"{can} {describe_cost(metric, least, most)} ({least / full:.3f} to "
                f"{most / full:.3f})" + _how_to_reach_lower(space) * (value < least)
            )
        budget = cls(metric=metric, value=value, low=0, high=0, latency=latency, at_most=at_most)
        return budget.within(tolerance)

    def within(self, tolerance: float) -> Self:
        """The same target with another band around it."""
        # the outermost whole numbers inside the band
        low, high = -int(-(1 - tolerance) * self.value // 1), int((1 + tolerance) * self.value)
        return replace(self, low=low, high=high)

    def inner_half(self) -> Self:
        """The same target with a band of half the width."""
        low, high = (round((end + self.value) / 2) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    @property
    def band(self) -> str:
        """The band in words."""
        return describe_cost(self.metric, self.low, self.high)

    @property
    def timed(self) -> Latency | None:
        """The times of the budget, or of a limit beside it, if one of them is a latency."""
        found = (each.latency for each in (self, *self.at_most))
        return next((latency for latency in found if latency is not None), None)

    def with_times(self, latency: Latency) -> Self:
        """The same budget and limits by other times."""
        limits = (
            each if each.latency is None else replace(each, latency=latency)
            for each in self.at_most
        )
        own = None if self.latency is None else latency
        return replace(self, latency=own, at_most=tuple(limits))

    def missed_by(self, measured: float) -> float:
        """How far a measured time is from what is asked for; 0 if it is inside by a margin."""
        if self.latency is not None:
            margin = min(MARGIN * self.value, (self.high - self.low) / 4)
            inside = self.low + margin <= measured <= self.high - margin
            return 0.0 if inside else abs(measured - self.value)
        limits = [each.high for each in self.at_most if each.latency is not None]
        return max(0.0, measured - (1 - MARGIN) * min(limits))

    @property
    def promise(self) -> str:
        """The band and all other limits in words."""
        limits = [f"at most {describe_cost(each.metric, each.high)}" for each in self.at_most]
        return " and ".join([self.band, *limits])

    def holds(self, cost: float) -> bool:
        """Whether a cost is inside the band."""
        return self.low <= cost <= self.high

    def allows(self, space: Space, shape: Shape) -> bool:
        """Whether a shape is inside the band, and above no other limit."""
        return self.holds(self.cost(space, shape)) and not self.exceeded(space, shape)

    def exceeded(self, space: Space, shape: Shape, time: int | None = None) -> str:
        """The first other limit that a shape is above, in words, if there is one; ``time`` is its
        measured time, if it has one."""
        for limit in self.at_most:
            measured = None if limit.latency is None else time
            cost = limit.cost(space, shape) if measured is None else measured
            if cost > limit.high:
                own = describe_cost(limit.metric, cost)
                return f"{own} where {describe_cost(limit.metric, limit.high)} are allowed"
        return ""

    def target(self) -> dict[str, Any]:
        """The target as result files hold it: metric, value and band; latencies in ms."""
        ends = {"value": self.value, "low": self.low, "high": self.high}
        found: dict[str, Any] = {
            "metric": self.metric,
            **{n: in_units(self.metric, c) for n, c in ends.items()},
        }
        if self.timed is not None:
            found["conditions"] = str(self.timed.conditions)
        if self.at_most:
            limits = {limit.metric: in_units(limit.metric, limit.high) for limit in self.at_most}
            found["at_most"] = limits
        return found


def in_units(metric: Metric, cost: float) -> float:
    """A cost as result files hold it: latencies in milliseconds."""
    return cost / 1e6 if metric == "latency" else cost


def limit_of(amount: str, space: Space, metric: Metric, latency: Latency | None = None) -> Limit:
    """A limit from a fraction, a number or a time; a ValueError if no shape is below it, or all."""
    full, least, most, value = _asked(amount, space, metric, latency)
    if value > most:
        hint = "; a time has a unit, such as 3ms" if metric == "latency" else ""
        raise ValueError(
            f"at most {describe_cost(metric, value)} is no limit: no shape of this network has "
            f"more than {describe_cost(metric, most)}{hint}"
        )
    if value < least:
        raise ValueError(
            f"at most {describe_cost(metric, value)} is not possible: no shape of this network "
            f"has less than {describe_cost(metric, least)} ({least / full:.3f})"
        )
    return Limit(metric=metric, high=int(value), latency=latency)


def _asked(
    amount: str | float, space: Space, metric: Metric, latency: Latency | None
) -> tuple[int, int, int, float]:
    """The cost of the full network, the ends between which all shapes are, and the cost that is
    asked for."""
    if metric not in get_args(Metric):
        raise ValueError(f"metric must be one of {', '.join(get_args(Metric))}, not {metric!r}")
    if metric == "latency":
        # the smallest shape need not be the fastest
        times = _measured(latency)
        full, ends = round(times.full), times.bounds(space)
    else:
        count = macs if metric == "macs" else params
        full = count(space, space.full)
        ends = count(space, space.smallest), count(space, space.largest)
    return full, min(full, *ends), max(full, *ends), _number(amount, full, metric)


def _how_to_reach_lower(space: Space) -> str:
    """What to change for a smaller network, as the end of a message."""
    count = len(space.fixed)
    fixed = f"; {count} of its layers keep their width (tas cost says why)" if count else ""
    return f"{fixed}; smaller --ratios may reach lower"


def _why_nothing(space: Space) -> str:
    """Why a space has one shape only."""
    if space.widths:
        stages = "each stage one depth" if space.depths else "there is no stage of repeated blocks"
        return (
            f"each layer has one candidate width, and {stages}; give more ratios, a smaller "
            "divisor, or sizes that include widths (--ratios, --divisor, --sizes)"
        )
    reasons = []
    for (first, *others), why in like_reasons(space.fixed)[:REASONS]:
        more = f" and {len(others)} more are" if others else " is"
        reasons.append(f"{first!r}{more} fixed because {why}")
    return "; ".join(reasons) or "it has no layers between its input and its output"


def _measured(latency: Latency | None) -> Latency:
    if latency is None:
        raise ValueError("the metric latency needs times that were measured: latency=")
    return latency


def _number(amount: str | float, full: int, metric: Metric) -> float:
    """The cost that an amount stands for, in a network that costs `full`."""
    units = "|".join((*"%KMGB", *NANOSECONDS))
    pattern = rf"\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[0-9]+)?)\s*({units}|)\s*"
    found = re.fullmatch(pattern, str(amount), re.IGNORECASE)
    number = float(found[1]) if found else 0.0
    if not found or not number > 0:
        raise ValueError(
            f"a budget is a fraction (0.5), a number (20M, 150K, 1.2G) or a time (3ms) above 0, "
            f"not {amount!r}"
        )
    suffix = found[2].upper()
    if suffix == "%":
        return number / 100 * full
    if not suffix and number <= LARGEST_FRACTION:
        return number * full
    if (suffix in NANOSECONDS) != (metric == "latency"):
        if metric == "latency":
            raise ValueError(f"{amount} is not a time; write one, such as 3ms")
        raise ValueError(f"{amount} is not a number of {NAMES[metric]}; use --metric latency")
    return number * (NANOSECONDS[suffix] if metric == "latency" else SUFFIXES[suffix])
