"""Learning Efficient Convolutional Networks through Network Slimming.
Liu, Li, Shen, Huang, Yan, Zhang. ICCV 2017.

The network is trained with a penalty on the absolute scales of its batch norms; then the channels
with the smallest scales of the whole network go. The paper trains for 160 epochs with a penalty of
1e-5 to 1e-4; a search is much shorter, so ours is larger. Channels that no norm scales go last.
"""

import copy

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ..training.train import Objective, cross_entropy
from ._channel_choice import Scores, by_rank
from ._criteria import importances, mean_over, norms
from .interface import Context, MethodResult

__all__ = ["scales", "slimming", "sparse"]

PENALTY = 1e-3


def slimming(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Train with the penalty, and keep the channels with the largest scales."""
    importances()  # before anything is trained
    groups = ChannelGroups(space)
    if not list(norms(model, groups)):
        raise ValueError("slimming needs batch norms, and this network has none; try pfec")
    net = copy.deepcopy(model)
    context.train(net, objective=sparse(groups, context.searching.label_smoothing))
    shape = by_rank(groups, budget, scales(net, groups))
    return MethodResult(shape=shape, model=slim(net, space, shape), cost=budget.cost(space, shape))


def sparse(groups: ChannelGroups, label_smoothing: float = 0.0) -> Objective:
    """Cross-entropy, and the penalty on the scales."""
    of_labels = cross_entropy(label_smoothing)

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = of_labels(model, x, y)
        inner = getattr(model, "module", model)
        penalty = torch.stack([norm.weight.abs().sum() for _, norm in norms(inner, groups)]).sum()
        return {**outcome, "loss": outcome["loss"] + PENALTY * penalty}

    return objective


def scales(model: nn.Module, groups: ChannelGroups) -> Scores:
    """The absolute scale of each channel."""
    criterion = importances().BNScaleImportance(normalizer=None)
    found = mean_over(norms(model, groups), groups, criterion)
    scaled = {c for layer, _ in norms(model, groups) for c in groups.channels(layer.outputs)}
    for head, values in found.items():
        for i in range(len(values)):
            if (head, i) not in scaled:
                values[i] = torch.inf
    return found
