"""Channels in order of importance, so that the first ones of a layer are its best ones."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from ..tracing import Concat, Last, Own, Place, Repeat, Union
from ..tracing.space import Space
from .slim import resize

__all__ = ["sort_channels"]

UNSORTED = ""


def sort_channels(model: nn.Module, space: Space) -> nn.Module:
    """A copy of the network that computes the same, the most important channels of a layer first.

    What a channel is worth is how much its layers make of it (the scale of the norm, or the size of
    the filter) times how much the next layers take from it. Layers that are added to each other
    have one order.

    >>> from transformable import models
    >>> net = models.build("resnet20")
    >>> space = Space.trace(net, (3, 32, 32))
    >>> x = torch.randn(1, 3, 32, 32)
    >>> torch.allclose(sort_channels(net, space).eval()(x), net.eval()(x), atol=1e-5)
    True
    """
    heads = _heads(space)
    orders = {
        head: worth.argsort(descending=True, stable=True).tolist()
        for head, worth in _worth(model, space, heads).items()
    }
    ordered = copy.deepcopy(model)
    for layer in space.layers:
        if layer.kind != "constant":
            outs, ins = (_order(space, heads, orders, i) for i in (layer.outputs, layer.inputs))
            resize(ordered.get_submodule(layer.name), layer, outs, ins)
    return ordered


def _heads(space: Space) -> dict[str, str]:
    """The layers whose channels have to keep one order, by the first of them."""
    head = {name: name for name in (UNSORTED, *space.full.widths)}

    def find(name: str) -> str:
        return name if head[name] == name else find(head[name])

    def tie(names: list[str]) -> str:
        # to those that cannot be sorted, if there is one among them
        first, *others = sorted({find(name) for name in names}, key=lambda n: n != UNSORTED)
        head.update(dict.fromkeys(others, first))
        return first

    owner: list[str] = []
    for layout in space.layouts:
        match layout:
            case Own(_, layer):
                owner.append(layer)
            case Union(_, parts) | Last(_, _, parts):
                owner.append(tie([owner[part] for part in parts]))
            case Place(_, part):
                owner.append(tie([UNSORTED, owner[part]]))
            case _:
                # nothing that is added to one of these may move either
                owner.append(UNSORTED)
    for join in space.joins:
        tie([owner[part] for part in join.operands])
    return {name: find(name) for name in head}


def _worth(model: nn.Module, space: Space, heads: dict[str, str]) -> dict[str, Tensor]:
    sizes = {heads[n]: size for n, size in space.full.widths.items() if heads[n] != UNSORTED}
    scales, filters, taken = ({n: torch.zeros(size) for n, size in sizes.items()} for _ in range(3))
    for layer in space.layers:
        if layer.kind not in ("conv", "linear", "norm"):
            continue
        weight: Any = getattr(model.get_submodule(layer.name), "weight", None)
        if weight is None:
            continue
        weight = weight.detach().float().cpu().abs()
        if layer.kind == "norm":
            _add(scales, space, heads, layer.outputs, weight)
        else:
            _add(filters, space, heads, layer.outputs, weight.flatten(1).sum(1))
            _add(taken, space, heads, layer.inputs, weight.transpose(0, 1).flatten(1).sum(1))
    # where there is no norm, the filters have to say it
    return {n: (scales[n] if scales[n].any() else filters[n]) * taken[n] for n in sizes}


def _add(
    sums: dict[str, Tensor], space: Space, heads: dict[str, str], index: int, values: Tensor
) -> None:
    """Each value to the channel that it is of."""
    match space.layouts[index]:
        case Concat(_, parts):
            sizes = [space.layouts[part].size for part in parts]
            for part, piece in zip(parts, torch.split(values, sizes), strict=True):
                _add(sums, space, heads, part, piece)
        case Repeat(_, part, times):
            _add(sums, space, heads, part, values.view(-1, times).sum(1))
        case _:
            owner = _owner(space, index)
            if owner is not None and heads[owner] != UNSORTED:
                sums[heads[owner]] += values


def _owner(space: Space, index: int) -> str | None:
    """A layer that makes the channels of this layout, one of several that are added."""
    match space.layouts[index]:
        case Own(_, layer):
            return layer
        case Union(_, parts) | Last(_, _, parts):
            return _owner(space, parts[0])
    return None


def _order(
    space: Space, heads: dict[str, str], orders: dict[str, list[int]], index: int
) -> list[int]:
    """The old number of each channel in the new order."""
    match space.layouts[index]:
        case Concat(_, parts):
            numbers, offset = [], 0
            for part in parts:
                numbers += [n + offset for n in _order(space, heads, orders, part)]
                offset += space.layouts[part].size
            return numbers
        case Repeat(_, part, times):
            inner = _order(space, heads, orders, part)
            return [n * times + k for n in inner for k in range(times)]
        case layout:
            owner = _owner(space, index)
            head = UNSORTED if owner is None else heads[owner]
            return orders.get(head, list(range(layout.size)))
