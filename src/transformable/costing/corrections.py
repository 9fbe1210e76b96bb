"""Shapes for a budget in milliseconds: what is derived is measured, and the times are corrected."""

from collections.abc import Callable
from typing import NamedTuple

from ..shape import Shape
from ..tracing.space import Space
from .budget import BandError, Budget

__all__ = ["Settled", "settle"]

CORRECTIONS = 4  # times that a shape is derived again because its measured time is outside the band


class Settled(NamedTuple):
    """A shape and its cost."""

    shape: Shape
    cost: int
    """In the metric of the budget; a latency is the measured one."""
    time: int | None = None
    """Its measured time in nanoseconds, if the budget or a limit beside it is a latency."""


def settle(shape: Shape, find: Callable[[Budget], Shape], space: Space, budget: Budget) -> Settled:
    """Measure a shape that was found for a budget, if that or a limit beside it is a latency.

    If the measured time is outside the band or above the limit, the times are corrected by it, and
    `find` is called for another shape, for the inner half of the band if that has one: what is at
    an end of the band may be measured outside. If no shape comes into the band, or below the limit,
    the nearest is returned.
    """
    latency = budget.timed
    if latency is None or latency.timer is None:
        return Settled(shape, budget.cost(space, shape))
    best: tuple[float, Shape, int] | None = None
    for left in reversed(range(CORRECTIONS + 1)):
        measured = round(latency.timer(shape))
        missed = budget.missed_by(measured)
        if best is None or missed < best[0]:
            best = missed, shape, measured
        if not missed or not left:
            break
        latency = latency.corrected(space, shape, measured)
        budget = budget.with_times(latency)
        try:
            try:
                shape = find(budget.inner_half())
            except BandError:
                shape = find(budget)
        except BandError:
            break
    assert best is not None
    _, shape, measured = best
    cost = budget.cost(space, shape) if budget.latency is None else measured
    return Settled(shape, cost, measured)
