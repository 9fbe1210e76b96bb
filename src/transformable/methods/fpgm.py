"""Filter Pruning via Geometric Median for Deep Convolutional Neural Networks Acceleration.
He, Liu, Wang, Hu, Yang. CVPR 2019.

Drops the filters nearest to the geometric median of their layer, which the others can replace:
those with the smallest sum of distances to all others. Every layer loses the same share.

Differences from the paper: the share is solved for the budget, and filters are dropped once, not
after each epoch. torch-pruning's criterion of this name is not used: it takes the distances between
absolute values, so that a filter and its negative are the same.
"""

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import keep_by_ratio
from ._criteria import filters
from .interface import Context, MethodResult, slimmed

__all__ = ["fpgm", "summed_distances"]


def fpgm(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    scores = groups.mean(
        (layer.outputs, summed_distances(weights.float().cpu()))
        for layer, weights in filters(model, groups)
    )
    return slimmed(model, space, budget, keep_by_ratio(groups, budget, scores))


def summed_distances(points: Tensor) -> Tensor:
    """The sum of the distances of each point (a row) to all points."""
    return torch.cdist(points, points).sum(1)
