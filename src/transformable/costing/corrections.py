"""Shapes for a budget in milliseconds: what is derived is measured, and the times are corrected."""

from collections.abc import Callable

from ..shape import Shape
from ..tracing.space import Space
from .budget import BandError, Budget, describe_cost

__all__ = ["settle"]

CORRECTIONS = 4  # times that a shape is derived again because its measured time is outside the band


def settle(find: Callable[[Budget], Shape], space: Space, budget: Budget) -> tuple[Shape, int]:
    """A shape that a method finds for a budget, and its cost, which for a latency is measured; so
    is a limit beside the budget that is a latency.

    If the measured time is outside the band or above the limit, the times are corrected by it and
    the method is called again, for the inner half of the band if that has a shape: what is at an
    end of the band may be measured outside. If no shape comes into the band, the nearest is
    returned; a BandError is raised if none is below the limit.
    """
    shape, latency = find(budget), budget.timed
    if latency is None or latency.timer is None:
        return shape, budget.cost(space, shape)
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
    if budget.latency is not None:
        return shape, measured
    for limit in budget.at_most:
        if limit.latency is not None and measured > limit.high:
            takes, allowed = (describe_cost("latency", each) for each in (measured, limit.high))
            raise BandError(
                f"the network that is nearest to the limits takes {takes} where "
                f"{allowed} are allowed"
            )
    return shape, budget.cost(space, shape)
