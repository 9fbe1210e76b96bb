"""Filter Pruning via Geometric Median for Deep Convolutional Neural Networks Acceleration.
He, Liu, Wang, Hu, Yang. CVPR 2019.

The filters nearest to the geometric median of their layer go, because the others can stand in for
them: those with the smallest sum of distances to all others. As in the paper every layer loses the
same share, which is solved for the budget; here that is done once and not after each epoch.
torch-pruning's criterion of the same name takes the distances between absolute values, by which a
filter and its negative are one point; this one takes them between the filters.
"""

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import Scores, by_ratio
from ._criteria import filters
from .interface import Context, MethodResult

__all__ = ["distances", "fpgm"]


def fpgm(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Keep the filters that are far from the median."""
    groups = ChannelGroups(space)
    shape = by_ratio(groups, budget, _scores(model, groups))
    return MethodResult(
        shape=shape, model=slim(model, space, shape), cost=budget.cost(space, shape)
    )


def distances(points: Tensor) -> Tensor:
    """Of each point (a row) the sum of its distances to all.

    >>> distances(torch.tensor([[0.0], [1.0], [3.0]]))
    tensor([4., 3., 5.])
    """
    return torch.cdist(points, points).sum(1)


def _scores(model: nn.Module, groups: ChannelGroups) -> Scores:
    return groups.mean(
        (layer.outputs, distances(module.weight.detach().flatten(1).float().cpu()))
        for layer, module in filters(model, groups)
    )
