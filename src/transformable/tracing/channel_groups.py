"""Which channels belong together: layers that are added to each other lose the same ones."""

from collections.abc import Iterable, Iterator
from functools import cached_property

import torch
from torch import Tensor

from ..shape import Shape
from . import Concat, Last, Layer, Own, Place, Repeat, Union
from .space import Space

__all__ = ["Channel", "Groups"]

Channel = tuple[str, int]
"""A group, by its first layer, and which of its channels."""


class Groups:
    """The layers of a space by what they are added to, each group by the first layer in it.

    >>> from transformable import models
    >>> groups = Groups(Space.trace(models.build("resnet20"), (3, 32, 32)))
    >>> groups.sizes["stem.0"], groups.head["stages.0.2.conv2"]
    (16, 'stem.0')
    >>> len(groups.sizes)
    12
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.head = _heads(space)
        self.sizes = {
            self.head[name]: size
            for name, size in space.full.widths.items()
            if self.head[name] == name
        }

    def channels(self, index: int) -> list[Channel | None]:
        """For each place in a layout the channel that is there; None where it never changes."""
        return self._channels[index]

    @cached_property
    def _channels(self) -> list[list[Channel | None]]:
        table: list[list[Channel | None]] = []
        for layout in self.space.layouts:
            row: list[Channel | None] = [None] * layout.size
            match layout:
                case Own(size, layer):
                    row = [(self.head[layer], i) for i in range(size)]
                case Union(_, parts) | Last(_, _, parts):
                    for part in parts:
                        row = [old or new for old, new in zip(row, table[part], strict=True)]
                case Concat(_, parts):
                    row = [channel for part in parts for channel in table[part]]
                case Repeat(_, part, times):
                    row = [channel for channel in table[part] for _ in range(times)]
                case Place(_, part, positions):
                    for position, channel in zip(positions, table[part], strict=True):
                        row[position] = channel
            table.append(row)
        return table

    def mean(self, values: Iterable[tuple[int, Tensor]]) -> dict[str, Tensor]:
        """Of values that stand at the places of layouts, the mean for each channel (0: no value).

        >>> from transformable import models
        >>> groups = Groups(Space.trace(models.build("resnet20"), (3, 32, 32)))
        >>> index = groups.space.layers[0].outputs  # of the stem
        >>> groups.mean([(index, torch.ones(16)), (index, torch.zeros(16))])["stem.0"][:3]
        tensor([0.5000, 0.5000, 0.5000])
        """
        sums, counts = ({head: [0.0] * size for head, size in self.sizes.items()} for _ in range(2))
        for index, each in values:
            for channel, value in zip(self.channels(index), each.tolist(), strict=True):
                if channel is not None:
                    head, i = channel
                    sums[head][i] += value
                    counts[head][i] += 1
        return {
            head: torch.tensor(sums[head]) / torch.tensor(counts[head]).clamp(min=1)
            for head in self.sizes
        }

    def makers(self) -> Iterator[tuple[str, Layer]]:
        """The convolutions and linear layers that may change, each with its group."""
        for layer in self.space.layers:
            match self.space.layouts[layer.outputs]:
                case Own(_, name) if layer.kind in ("conv", "linear"):
                    yield self.head[name], layer

    def kept(self, shape: Shape) -> dict[str, list[int]]:
        """Of each group the channels that any of its layers keeps."""
        kept: dict[str, set[int]] = {head: set() for head in self.sizes}
        for name, channels in shape.channels.items():
            kept[self.head[name]].update(channels)
        return {head: sorted(channels) for head, channels in kept.items()}

    def shape(self, kept: dict[str, list[int]]) -> Shape:
        """The shape that keeps these channels of each group, and all blocks."""
        full = self.space.full
        chosen = {name: tuple(sorted(kept[self.head[name]])) for name in full.widths}
        return Shape({name: len(each) for name, each in chosen.items()}, full.depths, chosen)


def _heads(space: Space) -> dict[str, str]:
    head = {name: name for name in space.full.widths}

    def find(name: str) -> str:
        return name if head[name] == name else find(head[name])

    def tie(names: list[str | None]) -> str | None:
        known = list(dict.fromkeys(find(name) for name in names if name is not None))
        order = list(head)
        known.sort(key=order.index)
        head.update(dict.fromkeys(known[1:], known[0]) if known else {})
        return known[0] if known else None

    owner: list[str | None] = []
    for layout in space.layouts:
        match layout:
            case Own(_, layer):
                owner.append(layer)
            case Union(_, parts) | Last(_, _, parts):
                owner.append(tie([owner[part] for part in parts]))
            case _:
                # what was moved to other places has other numbers there
                owner.append(None)
    for join in space.joins:
        if len({space.layouts[part].size for part in join.operands}) == 1:
            tie([owner[part] for part in join.operands])
    return {name: find(name) for name in head}
