"""Soft Filter Pruning for Accelerating Deep Convolutional Neural Networks.
He, Kang, Dong, Fu, Yang. IJCAI 2018.

After each epoch of training the filters with the smallest L2 norms are set to zero, and may grow
again in the next one; after the last epoch they are dropped. Every layer loses the same share.

Differences from the paper: the share is solved for the budget. Layers that are added to each other
lose the same channels, where the paper leaves the last layer of a block unpruned.
"""

import copy

import torch
from torch import nn

from ..costing.budget import Budget
from ..resizing import channel_axes
from ..shape import Shape
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import keep_by_ratio
from ._criteria import filter_norms
from .interface import Context, MethodResult, slimmed

__all__ = ["sfp", "zero_filters"]


def sfp(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    net = copy.deepcopy(model)

    def largest_filters() -> Shape:
        return keep_by_ratio(groups, budget, filter_norms(net, groups, p=2))

    largest_filters()  # an impossible budget is refused before the training
    context.train(net, after_epoch=lambda _: zero_filters(net, groups, largest_filters()))
    passes = context.searching.epochs
    return slimmed(net, space, budget, largest_filters(), passes=passes)


@torch.no_grad()
def zero_filters(model: nn.Module, groups: ChannelGroups, shape: Shape) -> None:
    """Set the filters to zero that a shape does not keep."""
    kept = groups.kept(shape)
    for layer in groups.makers():
        module, lost = model.get_submodule(layer.name), groups.lost(layer.outputs, kept)
        axes = channel_axes(module, layer.kind)
        for name, parameter in module.named_parameters():
            if (axis := axes[name][0]) is not None:
                parameter.index_fill_(axis, torch.tensor(lost, device=parameter.device), 0)
