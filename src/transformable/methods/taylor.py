"""Importance Estimation for Neural Network Pruning. Molchanov, Mallya, Tyree, Frosio, Kautz.
CVPR 2019.

Behind each channel of a batch norm stands a gate of value 1. To close it changes the loss, to the
first order, by the gradient of the gate; the square of that, added up over the steps, is what
the channel is worth. While the network is trained further, the gates of the channels that are worth
least in the whole network are closed. The paper closes some after every few steps; here it is after
each epoch, on a straight line down to the budget. Where no norm follows a layer, the gates stand
behind its filters.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from ..costing.budget import Budget
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing import Layer
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ._channel_choice import by_rank, loosened
from .interface import Context, MethodResult

__all__ = ["Gates", "taylor"]

MEMORY = 0.1
"""How much what was found before gates were closed counts afterwards."""


def taylor(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Train, and close the gates that the loss would miss least."""
    net = copy.deepcopy(model).to(context.session.fabric.device)
    gates = Gates(net, ChannelGroups(space))
    full, rounds = budget.cost(space, space.full), context.searching.epochs

    def close(_: nn.Module) -> None:
        part = (gates.rounds + 1) / rounds
        value = full + part * (budget.value - full)
        # on the way any cost will do
        band = budget if part == 1 else replace(budget, value=value, low=0, high=2 * full)
        gates.close(by_rank(gates.groups, band, gates.worth()))

    context.train(net, each_epoch=close)
    shape = loosened(gates.groups, budget, gates.worth(), gates.shape())
    gates.remove()
    return MethodResult(shape=shape, model=slim(net, space, shape), cost=budget.cost(space, shape))


class Gates:
    """Factors of 1 or 0 behind the channels, and what they are worth.

    Both are buffers of the layers that they stand behind, so that a checkpoint has them.
    """

    def __init__(self, model: nn.Module, groups: ChannelGroups) -> None:
        self.groups = groups
        self._modules = list(_gated(model, groups))
        self._hooks = []
        for layer, module in self._modules:
            size = groups.space.layouts[layer.outputs].size
            module.register_buffer("gate", torch.ones(size))
            module.register_buffer("squares", torch.zeros(size))
            module.register_buffer("rounds", torch.zeros((), dtype=torch.long))
            self._hooks.append(module.register_forward_hook(_pass))

    @property
    def rounds(self) -> int:
        """How often gates were closed."""
        return int(self._modules[0][1].rounds)

    def worth(self) -> dict[str, Tensor]:
        """Of each channel; a closed one is worth nothing."""
        return self.groups.mean(
            (layer.outputs, module.squares.cpu() * module.gate.cpu())
            for layer, module in self._modules
        )

    def close(self, shape: Shape) -> None:
        """All but those of the channels that a shape keeps; what was before counts less then."""
        kept = self.groups.kept(shape)
        for layer, module in self._modules:
            channels = self.groups.channels(layer.outputs)
            stay = [channel is None or channel[1] in kept[channel[0]] for channel in channels]
            module.gate.copy_(torch.tensor(stay))
            module.squares *= MEMORY
            module.rounds += 1

    def shape(self) -> Shape:
        """What the open gates keep."""
        kept = self.groups.mean((layer.outputs, m.gate.cpu()) for layer, m in self._modules)
        return self.groups.shape(
            {head: each.nonzero().flatten().tolist() for head, each in kept.items()}
        )

    def remove(self) -> None:
        """Leave the network as it was."""
        for hook in self._hooks:
            hook.remove()
        for _, module in self._modules:
            for name in ("gate", "squares", "rounds"):
                delattr(module, name)


def _gated(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Any]]:
    """The norms, and the layers that have none behind them."""
    layers = [layer for layer in groups.space.layers if layer.kind == "norm"]
    pairs = [(layer, model.get_submodule(layer.name)) for layer in layers]
    normed = [(layer, module) for layer, module in pairs if isinstance(module, _NormBase)]
    yield from normed
    names = {layer.name for layer, _ in normed}
    followed = {
        node.target
        for node in groups.space.graph.nodes
        if any(user.target in names for user in node.users)
    }
    for _, layer in groups.makers():
        if layer.name not in followed:
            yield layer, model.get_submodule(layer.name)


def _pass(module: Any, _: Any, output: Tensor) -> Tensor:
    """Through the gates; on the way back their gradients are squared and added up."""
    gate = module.gate.detach()
    if module.training and torch.is_grad_enabled():
        gate = gate.clone().requires_grad_()
        gate.register_hook(lambda gradient: _note(module, gradient))
    gated: Tensor = output * gate.view(-1, *[1] * (output.ndim - 2))
    return gated


def _note(module: Any, gradient: Tensor) -> None:
    module.squares += gradient.detach() ** 2
