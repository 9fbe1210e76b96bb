"""Which channels belong together: layers that are added to each other lose the same ones."""

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from math import lcm

import torch
from torch import Tensor

from ..resizing import MATRICES
from ..shape import Shape
from .layouts import Concat, LayerOutput, Placed, Repeated, StageOutput, Union
from .reader import Layer
from .space import Space

__all__ = ["Channel", "ChannelGroups"]

Channel = tuple[str, int]
"""A group, named by its first layer, and the index of one of its channels."""


class ChannelGroups:
    """The layers of a space, grouped by what they are added to.

    A group is named by its first layer. Where channels stay together (`Space.units`), a "channel"
    of a group is a block of them: `units` says how many, `sizes` how many blocks. `movable` are the
    groups whose channels may be put into another order: a layout that places channels at fixed
    positions, or an add to something outside of all groups, does not allow that.

    >>> from transformable import models
    >>> groups = ChannelGroups(Space.trace(models.build("resnet20"), (3, 32, 32)))
    >>> groups.sizes["stem.0"], groups.group_of["stages.0.2.conv2"]
    (16, 'stem.0')
    >>> len(groups.sizes), len(groups.movable)
    (12, 12)
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.group_of, immovable = _find_groups(space)
        self.units = {name: 1 for name in space.full.widths if self.group_of[name] == name}
        for name, unit in space.units.items():
            self.units[self.group_of[name]] = lcm(self.units[self.group_of[name]], unit)
        self.sizes = {n: space.full.widths[n] // unit for n, unit in self.units.items()}
        self.movable = self.sizes.keys() - immovable
        self.positions = cache(self._positions)

    @cached_property
    def channels(self) -> list[list[Channel | None]]:
        """For each layout, the channel at each position; None where it never changes."""
        table: list[list[Channel | None]] = []
        for layout in self.space.layouts:
            row: list[Channel | None] = [None] * layout.size
            match layout:
                case LayerOutput(size, layer):
                    group = self.group_of[layer]
                    row = [(group, i // self.units[group]) for i in range(size)]
                case Union(_, parts) | StageOutput(_, _, parts):
                    for part in parts:
                        row = [old or new for old, new in zip(row, table[part], strict=True)]
                case Concat(_, parts):
                    row = [channel for part in parts for channel in table[part]]
                case Repeated(_, part, times):
                    row = [channel for channel in table[part] for _ in range(times)]
                case Placed(_, part, positions):
                    for position, channel in zip(positions, table[part], strict=True):
                        row[position] = channel
            table.append(row)
        return table

    @property
    def candidates(self) -> dict[str, list[int]]:
        """The candidate sizes of each group, in blocks."""
        widths = self.space.widths
        return {
            group: sorted({max(1, width // unit) for width in widths[group]})
            for group, unit in self.units.items()
        }

    def _positions(self, index: int) -> dict[str, Tensor]:
        """The positions in a layout of each movable group, a row for each of its channels."""
        found: dict[str, list[list[int]]] = {}
        for position, channel in enumerate(self.channels[index]):
            if channel is not None and channel[0] in self.movable:
                group, i = channel
                found.setdefault(group, [[] for _ in range(self.sizes[group])])[i].append(position)
        return {group: torch.tensor(rows) for group, rows in found.items()}

    def sum(self, values: Iterable[tuple[int, Tensor]]) -> dict[str, Tensor]:
        """For each channel of a movable group, the sum of its values.

        `values` are pairs of a layout and a tensor with a value for each of its positions.
        """
        sums = {name: torch.zeros(n) for name, n in self.sizes.items() if name in self.movable}
        for index, each in values:
            for group, positions in self.positions(index).items():
                sums[group] += each[positions].sum(1)
        return sums

    def mean(self, values: Iterable[tuple[int, Tensor]]) -> dict[str, Tensor]:
        """For each channel of a group, the mean of its values (0 if there is none)."""
        sums, counts = ({group: [0.0] * n for group, n in self.sizes.items()} for _ in range(2))
        for index, each in values:
            for channel, value in zip(self.channels[index], each.tolist(), strict=True):
                if channel is not None:
                    group, i = channel
                    sums[group][i] += value
                    counts[group][i] += 1
        return {
            group: torch.tensor(sums[group]) / torch.tensor(counts[group]).clamp(min=1)
            for group in self.sizes
        }

    def makers(self) -> Iterator[Layer]:
        """The convolutions and linear layers that may change."""
        for layer in self.space.layers:
            if layer.kind in MATRICES and any(self.channels[layer.outputs]):
                yield layer

    def lost(self, index: int, kept: dict[str, list[int]]) -> list[int]:
        """The positions in a layout whose channels are not kept."""
        return [
            i
            for i, channel in enumerate(self.channels[index])
            if channel and channel[1] not in kept[channel[0]]
        ]

    def kept(self, shape: Shape) -> dict[str, list[int]]:
        """For each group, the channels that any of its layers keeps."""
        kept: dict[str, set[int]] = {group: set() for group in self.sizes}
        for name, channels in shape.channels.items():
            group = self.group_of[name]
            kept[group].update(channel // self.units[group] for channel in channels)
        return {group: sorted(channels) for group, channels in kept.items()}

    def expand(self, layer: str, kept: Iterable[int]) -> tuple[int, ...]:
        """The channels of a layer in these blocks of its group."""
        unit = self.units[self.group_of[layer]]
        return tuple(block * unit + i for block in sorted(kept) for i in range(unit))

    def shape(self, kept: dict[str, list[int]]) -> Shape:
        """The shape that keeps these channels of each group, and all blocks."""
        full = self.space.full
        channels = {name: self.expand(name, kept[self.group_of[name]]) for name in full.widths}
        return Shape({name: len(each) for name, each in channels.items()}, full.depths, channels)


def _find_groups(space: Space) -> tuple[dict[str, str], set[str]]:
    """The group of each layer, and the groups whose channels must not move."""
    parent = {name: name for name in space.full.widths}
    order = {name: i for i, name in enumerate(parent)}
    pinned: list[str] = []

    def find(name: str) -> str:
        return name if parent[name] == name else find(parent[name])

    def merge(names: list[str | None]) -> str | None:
        """Make one group of these layers; None stands for channels of no group."""
        roots = sorted({find(name) for name in names if name is not None}, key=order.__getitem__)
        parent.update(dict.fromkeys(roots[1:], roots[0]) if roots else {})
        if None in names:
            pinned.extend(roots)
        return roots[0] if roots else None

    owner: list[str | None] = []
    for layout in space.layouts:
        match layout:
            case LayerOutput(_, layer):
                owner.append(layer)
            case Union(_, parts) | StageOutput(_, _, parts):
                owner.append(merge([owner[part] for part in parts]))
            case Placed(_, part):
                # the indexes of its channels change
                merge([None, owner[part]])
                owner.append(None)
            case _:
                owner.append(None)
    for add in space.adds:
        if len({space.layouts[part].size for part in add.operands}) == 1:
            merge([owner[part] for part in add.operands])
    return {name: find(name) for name in parent}, {find(name) for name in pinned}
