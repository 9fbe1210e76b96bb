"""Pruning Filters for Efficient ConvNets. Li, Kadav, Durdanovic, Samet, Graf. ICLR 2017.

Keeps the filters with the largest sums of absolute weights.

Differences from the paper: the share of each layer, set by hand there, is the same everywhere and
solved for the budget. Layers that are added to each other lose the same channels, by the mean of
their norms.
"""

from torch import nn

from ..costing.budget import Budget
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import keep_by_ratio
from ._criteria import filter_norms
from .interface import Context, MethodResult, slimmed

__all__ = ["pfec"]


def pfec(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    shape = keep_by_ratio(groups, budget, filter_norms(model, groups, p=1))
    return slimmed(model, space, budget, shape)
