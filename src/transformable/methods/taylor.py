"""Importance Estimation for Neural Network Pruning. Molchanov, Mallya, Tyree, Frosio, Kautz.
CVPR 2019.

A gate of value 1 stands behind each channel of a batch norm. To close it changes the loss, to the
first order, by its gradient, which is scale · d(scale) + shift · d(shift); the square of that, as
a mean over batches, is the importance of the channel. The least important channels of the whole
network go. The paper removes a few after every few steps of fine-tuning; here all go at once.
Where no norm scales a channel, the gate stands behind the filter.
"""

import copy
import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..budget import Budget
from ..grouping import Groups
from ..slimming import slim
from ..space import Space
from .criteria import norms
from .method import Context, Found
from .picking import Scores, by_rank

__all__ = ["gate_gradient", "importance", "taylor"]

BATCHES = 64


def taylor(model: nn.Module, space: Space, budget: Budget, context: Context) -> Found:
    """Keep the channels that the loss would miss."""
    groups = Groups(space)
    shape = by_rank(groups, budget, importance(model, groups, context))
    return Found(shape=shape, model=slim(model, space, shape), cost=budget.cost(space, shape))


def importance(model: nn.Module, groups: Groups, context: Context) -> Scores:
    """The mean square of the gates' gradients, over so many batches of the training set."""
    device = context.fabric.device
    net = copy.deepcopy(model).to(device).eval()
    gates = list(norms(net, groups))
    seen = {c[0] for layer, _ in gates for c in groups.channels(layer.outputs) if c is not None}
    gates += [
        (layer, net.get_submodule(layer.name))
        for head, layer in groups.makers()
        if head not in seen
    ]
    parameters = [list(module.parameters(recurse=False)) for _, module in gates]
    squares = [torch.zeros(len(each[0])) for each in parameters]
    size = context.searching.batch_size
    batches = context.dataset.train.shuffled(size, seed=context.seed, epoch=0)
    count = 0
    for x, y in itertools.islice(batches, BATCHES):
        loss = F.cross_entropy(net(x.to(device)), y.to(device))
        gradients = iter(torch.autograd.grad(loss, [p for each in parameters for p in each]))
        for square, each in zip(squares, parameters, strict=True):
            square += gate_gradient(each, [next(gradients) for _ in each]).cpu() ** 2
        count += 1
    return groups.mean(
        (layer.outputs, square / count) for (layer, _), square in zip(gates, squares, strict=True)
    )


def gate_gradient(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """The gradient of a gate behind each output channel of a layer, from its parameters' ones.

    >>> scale, shift = torch.tensor([2.0, 1.0]), torch.tensor([1.0, 0.0])
    >>> gate_gradient([scale, shift], [torch.tensor([0.5, 0.5]), torch.tensor([-1.0, 3.0])])
    tensor([0.0000, 0.5000])
    """
    products = [
        (p.detach() * g).reshape(len(p), -1).sum(1)
        for p, g in zip(parameters, gradients, strict=True)
    ]
    return torch.stack(products).sum(0)
