"""Learning Efficient Convolutional Networks through Network Slimming.
Liu, Li, Shen, Huang, Yan, Zhang. ICCV 2017.

The network is trained with an L1 penalty on the scales of its batch norms; then the channels with
the smallest scales of the whole network are dropped. Channels that no norm scales go last.

Differences from the paper: it trains for 160 epochs with a penalty of 1e-5 to 1e-4; a search is
much shorter, so the penalty is larger here.
"""

import copy

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..task import Objective
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import Scores, keep_by_rank
from ._criteria import norms
from .interface import Context, MethodResult, slimmed

__all__ = ["norm_scales", "slimming", "sparse_objective"]

PENALTY = 1e-3


def slimming(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    if not list(norms(model, groups)):
        raise ValueError("slimming needs batch norms, and this network has none; try pfec")
    net = copy.deepcopy(model)
    plain = context.dataset.task.objective(context.searching.label_smoothing)
    context.train(net, objective=sparse_objective(groups, plain))
    shape = keep_by_rank(groups, budget, norm_scales(net, groups))
    return slimmed(net, space, budget, shape, passes=context.searching.epochs)


def sparse_objective(groups: ChannelGroups, plain: Objective) -> Objective:
    """The plain objective plus the penalty on the scales."""

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = plain(model, x, y)
        inner = getattr(model, "module", model)
        penalty = torch.stack([norm.weight.abs().sum() for _, norm in norms(inner, groups)]).sum()
        return {**outcome, "loss": outcome["loss"] + PENALTY * penalty}

    return objective


def norm_scales(model: nn.Module, groups: ChannelGroups) -> Scores:
    """The absolute scale of each channel; infinite where no norm scales it."""
    found = norms(model, groups)
    scores = groups.mean((layer.outputs, norm.weight.detach().abs()) for layer, norm in found)
    scaled = {c for layer, _ in norms(model, groups) for c in groups.channels[layer.outputs]}
    for head, values in scores.items():
        for i in range(len(values)):
            if (head, i) not in scaled:
                values[i] = torch.inf
    return scores
