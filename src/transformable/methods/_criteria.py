"""Importance criteria: scores of channels from the weights of their layers."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..resizing import filters_of
from ..tracing.channel_groups import ChannelGroups
from ..tracing.reader import Layer
from ._channel_choice import Scores

__all__ = ["filter_norms", "filters", "norms"]


def filter_norms(model: nn.Module, groups: ChannelGroups, p: int) -> Scores:
    """The sum of |w|^p over the weights w of each filter, averaged over the layers of a group."""
    return groups.mean(
        (layer.outputs, weights.abs().pow(p).sum(1)) for layer, weights in filters(model, groups)
    )


def filters(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Tensor]]:
    """The convolutions and linear layers whose outputs are the channels of the groups, and their
    weights, a row for each output."""
    for layer in groups.makers():
        yield layer, filters_of(model.get_submodule(layer.name), layer.kind).flatten(1)


def norms(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Any]]:
    """The batch norms that scale channels."""
    for layer in groups.space.layers:
        module = model.get_submodule(layer.name)
        if layer.kind == "norm" and isinstance(module, _BatchNorm) and module.affine:
            yield layer, module
