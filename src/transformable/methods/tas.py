"""Network Pruning via Transformable Architecture Search. Dong, Yang. NeurIPS 2019.

The widths of all layers and the depths of all stages are learned by gradient descent.

Differences from the paper: the search starts from the trained network, not from scratch, and the
budget is kept by deriving the most probable shape inside its band.
"""

from dataclasses import replace

from torch import nn

from ..costing.budget import Budget
from ..searching.derive import check_possible
from ..searching.search import search_all
from ..tracing.space import Space
from ._channel_choice import check_budget
from .interface import Context, MethodResult
from .uniform import same_share

__all__ = ["both", "depth", "width"]


def both(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Search widths and depths."""
    settings = context.searching
    searched = search_all(
        model,
        context.dataset,
        context.budgets or [budget],
        settings,
        context.session,
        space=space,
        epochs_after=context.epochs_after if settings.inherit else 0,
    )
    found = next(one for one in searched if one.budget == budget)
    small = found.network if settings.inherit else context.slim(found.model, space, found.shape)
    return MethodResult(
        shape=found.shape,
        model=small,
        cost=found.derived.cost,
        time=found.derived.time,
        notes={"derived_by": found.derived.how, "given_up": found.derived.given_up},
        passes=found.passes,
        epochs_before=found.epochs if settings.inherit else 0,
    )


def width(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Search widths, at full depth."""
    full = {name: (depth,) for name, depth in space.full.depths.items()}
    return both(model, replace(space, depths=full), budget, context)


def depth(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Search depths, at full width.

    A block can cost more than the band is wide: what is then above the budget is taken from the
    widths, by the same ratio in all layers.
    """
    if not space.depths:
        raise ValueError("this network has no stages whose depth may change; try tas-width")
    full = {name: (size,) for name, size in space.full.widths.items()}
    deep = replace(space, widths=full)
    found = both(model, deep, _reachable(deep, budget), replace(context, budgets=()))
    if budget.holds(found.cost):
        return found
    shape = same_share(space, budget, found.shape)
    check_budget(space, budget, shape)
    small = context.slim_sorted(model, space, shape)
    notes = {**found.notes, "before_widths": found.cost}
    cost, passes = budget.cost(space, shape), found.passes
    return MethodResult(shape=shape, model=small, cost=cost, notes=notes, passes=passes)


def _reachable(space: Space, budget: Budget) -> Budget:
    """The same budget, its upper end raised until a shape is inside the band."""
    largest = budget.cost(space, space.full)
    while True:
        try:
            check_possible(space, budget)
        except ValueError:
            if budget.high >= largest:
                raise
            budget = replace(budget, high=min(largest, round(1.05 * budget.high)))
        else:
            return budget
