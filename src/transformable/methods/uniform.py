"""The same ratio of channels in every layer, all blocks kept; the paper calls it pre-defined.

The ratio is solved for the budget. Widths are rounded to whole channels, not to the candidates of
the space, and the channels kept are the most important ones in the sense of ``sort_channels``.
"""

from torch import nn

from ..costing.budget import Budget
from ..shape import Shape
from ..tracing.space import Space
from ._channel_choice import Widths, check_budget, same_ratio
from .interface import Context, MethodResult

__all__ = ["same_share", "uniform", "uniform_shape"]


def uniform(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    shape = uniform_shape(space, budget)
    small = context.slim_sorted(model, space, shape)
    return MethodResult(shape=shape, model=small, cost=budget.cost(space, shape))


def uniform_shape(space: Space, budget: Budget) -> Shape:
    """The shape of the ratio whose cost is nearest to the target.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> half = uniform_shape(space, Budget.of(0.5, space))
    >>> half.widths["stem.0"], half.widths["stages.2.0.conv1"]
    (11, 46)
    """
    full = space.full
    largest = max([1.0, *(sizes[-1] / full.widths[name] for name, sizes in space.widths.items())])
    shape = same_share(space, budget, full, largest)
    check_budget(space, budget, shape)
    return shape


def same_share(space: Space, budget: Budget, shape: Shape, largest: float = 1.0) -> Shape:
    """The shape with one share of the width of each layer, up to ``largest``, solved for the
    budget; with the depths of another."""
    full = space.full.widths
    units = {name: space.units.get(name, 1) for name in full}

    def shape_of(blocks: Widths) -> Shape:
        return shape.replace(widths={name: count * units[name] for name, count in blocks.items()})

    sizes = {name: width // units[name] for name, width in full.items()}
    return same_ratio(space, budget, sizes, shape_of, largest)
