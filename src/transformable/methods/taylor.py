"""Importance Estimation for Neural Network Pruning. Molchanov, Mallya, Tyree, Frosio, Kautz.
CVPR 2019.

Each channel of a batch norm is multiplied by a gate of value 1. Closing it changes the loss, to the
first order, by the gradient of the gate; the importance of the channel is the square of that
gradient, summed over the steps. While the network is trained further, the gates of the least
important channels of the whole network are closed. Layers without a norm have the gates behind
their filters.

Differences from the paper: gates are closed after each epoch, not after every few steps, so that
the cost falls linearly to the budget.
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
from ..tracing.channel_groups import ChannelGroups
from ..tracing.reader import Layer
from ..tracing.space import Space
from ._channel_choice import drop_single_channels, keep_by_rank
from .interface import Context, MethodResult, slimmed

__all__ = ["Gates", "taylor"]

MEMORY = 0.1  # factor on the sums of squares each time that gates are closed


def taylor(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    net = copy.deepcopy(model).to(context.session.fabric.device)
    gates = Gates(net, ChannelGroups(space))
    full, rounds = budget.cost(space, space.full), context.searching.epochs

    def close(_: nn.Module) -> None:
        part = (gates.rounds + 1) / rounds
        value = full + part * (budget.value - full)
        # only the last round has to be inside the band
        band = budget if part == 1 else replace(budget, value=value, low=0, high=2 * full)
        gates.close(keep_by_rank(gates.groups, band, gates.importance()))

    context.train(net, after_epoch=close)
    shape = drop_single_channels(gates.groups, budget, gates.importance(), gates.shape())
    gates.remove()
    return slimmed(net, space, budget, shape, passes=rounds)


class Gates:
    """Factors of 1 or 0 behind the channels, and the sums of their squared gradients. Both are
    buffers of the layers in front of them, so that checkpoints hold them."""

    def __init__(self, model: nn.Module, groups: ChannelGroups) -> None:
        self.groups = groups
        self._modules = list(_gated_layers(model, groups))
        self._hooks = []
        for layer, module in self._modules:
            size = groups.space.layouts[layer.outputs].size
            module.register_buffer("gate", torch.ones(size))
            module.register_buffer("squares", torch.zeros(size))
            module.register_buffer("rounds", torch.zeros((), dtype=torch.long))
            self._hooks.append(module.register_forward_hook(_apply_gate))

    @property
    def rounds(self) -> int:
        """How many times gates were closed."""
        return int(self._modules[0][1].rounds)

    def importance(self) -> dict[str, Tensor]:
        """The importance of each channel, 0 for a closed one."""
        return self.groups.mean(
            (layer.outputs, module.squares.cpu() * module.gate.cpu())
            for layer, module in self._modules
        )

    def close(self, shape: Shape) -> None:
        """Close the gates of all channels that a shape does not keep."""
        kept = self.groups.kept(shape)
        for layer, module in self._modules:
            module.gate.fill_(1)
            module.gate[self.groups.lost(layer.outputs, kept)] = 0
            module.squares *= MEMORY
            module.rounds += 1

    def shape(self) -> Shape:
        """The shape of the channels with open gates."""
        kept = self.groups.mean((layer.outputs, m.gate.cpu()) for layer, m in self._modules)
        return self.groups.shape(
            {head: each.nonzero().flatten().tolist() for head, each in kept.items()}
        )

    def remove(self) -> None:
        """Remove gates and buffers from the network."""
        for hook in self._hooks:
            hook.remove()
        for _, module in self._modules:
            for name in ("gate", "squares", "rounds"):
                delattr(module, name)


def _gated_layers(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Any]]:
    """The layers that get gates: the norms, and the layers that none of them follows."""
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
    for layer in groups.makers():
        if layer.name not in followed:
            yield layer, model.get_submodule(layer.name)


def _apply_gate(module: Any, _: Any, output: Tensor) -> Tensor:
    """Multiply by the gates; in the backward pass, add up their squared gradients."""
    gate = module.gate.detach()
    if module.training and torch.is_grad_enabled():
        gate = gate.clone().requires_grad_()
        gate.register_hook(lambda gradient: _add_square(module, gradient))
    pixels = 0 if isinstance(module, nn.Linear) else output.ndim - 2
    gated: Tensor = output * gate.view(-1, *[1] * pixels)
    return gated


def _add_square(module: Any, gradient: Tensor) -> None:
    module.squares += gradient.detach() ** 2
