"""Pruning Filters for Efficient ConvNets. Li, Kadav, Durdanovic, Samet, Graf. ICLR 2017.

Keeps the filters with the largest sums of absolute weights.

Differences from the paper: the share of each layer, set by hand there, is the same everywhere and
solved for the budget. Layers that are added to each other lose the same channels, by the mean of
their norms.
"""

from torch import nn

from ..costing.budget import Budget
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import Scores, keep_by_ratio
from ._criteria import filters, mean_score, torch_pruning_criteria
from .interface import Context, MethodResult

__all__ = ["l1", "pfec"]


def pfec(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    shape = keep_by_ratio(groups, budget, l1(model, groups))
    return MethodResult(
        shape=shape, model=slim(model, space, shape), cost=budget.cost(space, shape)
    )


def l1(model: nn.Module, groups: ChannelGroups) -> Scores:
    """The L1 norm of each filter."""
    criterion = torch_pruning_criteria().MagnitudeImportance(p=1, normalizer=None)
    return mean_score(filters(model, groups), groups, criterion)
