"""Sort channels by importance, so that the first ones of a layer are the most important."""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

from ..resizing import MATRICES, filters_of, resize
from ..tracing.channel_groups import ChannelGroups
from ..tracing.reader import Layer
from ..tracing.space import Space

__all__ = ["importance", "sort_channels"]

Values = Iterable[tuple[int, Tensor]]


def sort_channels(
    model: nn.Module, space: Space, scores: Mapping[str, Tensor] | None = None
) -> nn.Module:
    """A copy of the network that computes the same, the most important channels of a layer first.

    Layers that are added to each other have one order. The importance is by the weights, unless
    there are ``scores`` of the channels of each group.

    >>> from transformable import models
    >>> net = models.build("resnet20")
    >>> space = Space.trace(net, (3, 32, 32))
    >>> x = torch.randn(1, 3, 32, 32)
    >>> torch.allclose(sort_channels(net, space).eval()(x), net.eval()(x), atol=1e-5)
    True
    """
    groups = ChannelGroups(space)
    scores = scores or importance(model, space, groups.sum)
    orders = {n: values.argsort(descending=True, stable=True) for n, values in scores.items()}

    def sorted_positions(index: int) -> list[int]:
        """The old position of the channel at each position of a layout."""
        old = torch.arange(space.layouts[index].size)
        for group, positions in groups.positions(index).items():
            old[positions] = positions[orders[group]]
        return old.tolist()

    ordered = copy.deepcopy(model)
    for layer in space.layers:
        if layer.kind != "constant":
            outs, ins = sorted_positions(layer.outputs), sorted_positions(layer.inputs)
            resize(ordered.get_submodule(layer.name), layer.kind, outs, ins)
    return ordered


def importance(
    model: nn.Module, space: Space, combine: Callable[[Values], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """The importance of each channel of each group.

    It is the scale at which its layers write it (the scale of the norm; where there is no norm, the
    size of the filter) times the size of the weights that read it. `combine` is the `sum` or the
    `mean` of `ChannelGroups`.
    """

    def weights(*kinds: str) -> Iterator[tuple[Layer, Tensor]]:
        for layer in space.layers:
            if layer.kind in kinds:
                module = model.get_submodule(layer.name)
                if isinstance(getattr(module, "weight", None), Tensor):
                    yield layer, filters_of(module, layer.kind).float().cpu().abs()

    matrices = list(weights(*MATRICES))
    scales = combine((layer.outputs, weight) for layer, weight in weights("norm"))
    filters = combine((layer.outputs, weight.flatten(1).sum(1)) for layer, weight in matrices)
    read = combine(
        (layer.inputs, weight.transpose(0, 1).flatten(1).sum(1)) for layer, weight in matrices
    )
    return {
        group: (scales[group] if scales[group].any() else filters[group]) * read[group]
        for group in scales
    }
