"""Pruning Filters for Efficient ConvNets. Li, Kadav, Durdanovic, Samet, Graf. ICLR 2017.

The filters with the smallest sums of absolute weights go. The paper sets the share of each layer by
hand; here it is the same everywhere, solved for the budget. Layers that are added to each other
lose the same channels, by the mean of their norms.
"""

from torch import nn

from ..costing.budget import Budget
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import Scores, by_ratio
from ._criteria import filters, importances, mean_over
from .interface import Context, MethodResult

__all__ = ["l1", "pfec"]


def pfec(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Keep the filters with the largest L1 norms."""
    groups = ChannelGroups(space)
    shape = by_ratio(groups, budget, l1(model, groups))
    return MethodResult(
        shape=shape, model=slim(model, space, shape), cost=budget.cost(space, shape)
    )


def l1(model: nn.Module, groups: ChannelGroups) -> Scores:
    """The L1 norm of each filter."""
    criterion = importances().MagnitudeImportance(p=1, normalizer=None)
    return mean_over(filters(model, groups), groups, criterion)
