"""Soft Filter Pruning for Accelerating Deep Convolutional Neural Networks.
He, Kang, Dong, Fu, Yang. IJCAI 2018.

After each epoch of training the filters with the smallest L2 norms are set to zero, and may grow
again in the next one; after the last epoch they go. As in the paper every layer loses the same
share, which is solved for the budget. Layers that are added to each other lose the same channels,
where the paper leaves what ends a block unpruned.
"""

import copy

import torch
from torch import nn

from ..costing.budget import Budget
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import Scores, by_ratio
from ._criteria import filters, importances, mean_over
from .interface import Context, MethodResult

__all__ = ["l2", "sfp", "zero"]


def sfp(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Train with soft pruning, then prune."""
    importances()
    groups = ChannelGroups(space)
    by_ratio(groups, budget, l2(model, groups))  # refuses what cannot be met before it trains
    net = copy.deepcopy(model)

    def soften(net: nn.Module) -> None:
        zero(net, groups, by_ratio(groups, budget, l2(net, groups)))

    context.train(net, each_epoch=soften)
    shape = by_ratio(groups, budget, l2(net, groups))
    return MethodResult(shape=shape, model=slim(net, space, shape), cost=budget.cost(space, shape))


def l2(model: nn.Module, groups: ChannelGroups) -> Scores:
    """The squared L2 norm of each filter."""
    criterion = importances().MagnitudeImportance(p=2, normalizer=None)
    return mean_over(filters(model, groups), groups, criterion)


@torch.no_grad()
def zero(model: nn.Module, groups: ChannelGroups, shape: Shape) -> None:
    """Set the filters to zero that a shape does not keep."""
    kept = groups.kept(shape)
    for head, layer in groups.makers():
        lost = sorted(set(range(groups.sizes[head])) - set(kept[head]))
        for parameter in model.get_submodule(layer.name).parameters(recurse=False):
            parameter[lost] = 0
