"""Layouts: which channels of a tensor exist, as a bit mask that depends on the shape.

A layout refers to its parts by their index in the list of layouts, where parts come first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..shape import Shape

__all__ = [
    "Concat",
    "FixedWidth",
    "LayerOutput",
    "Layout",
    "Placed",
    "Repeated",
    "StageOutput",
    "Union",
    "channel_masks",
    "kept_channels",
    "set_bits",
]


@dataclass(frozen=True)
class FixedWidth:
    """All `size` channels, whatever the shape."""

    size: int
    parts: ClassVar[tuple[int, ...]] = ()


@dataclass(frozen=True)
class LayerOutput:
    """The output of a layer: `size` channels in the original, the layer's width in a shape."""

    size: int
    layer: str
    parts: ClassVar[tuple[int, ...]] = ()


@dataclass(frozen=True)
class Union:
    """The sum of a padded add: it has the channels that any part has."""

    size: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Concat:
    """The parts one after the other."""

    size: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Placed:
    """A part whose channels move to `positions`; if `zeros`, the other positions are zeros."""

    size: int
    part: int
    positions: tuple[int, ...]
    zeros: bool

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.part,)

    def mask(self, part: int) -> int:
        """The mask of this layout if its part has the mask `part`.

        Channels that are new (in a layer wider than the original) come after the last old one, or
        after all kept zeros.
        """
        count = len(self.positions)
        beyond = (self.size if self.zeros else self.positions[-1] + 1) - count
        mask = 0
        for i in set_bits(part):
            mask |= 1 << (self.positions[i] if i < count else i + beyond)
        if self.zeros:
            mask |= ((1 << self.size) - 1) & ~sum(1 << p for p in self.positions)
        return mask


@dataclass(frozen=True)
class Repeated:
    """Each channel of the part `times` times: pixels flattened into channels, or the outputs of a
    convolution with more outputs than inputs in each group."""

    size: int
    part: int
    times: int

    @property
    def parts(self) -> tuple[int, ...]:
        return (self.part,)


@dataclass(frozen=True)
class StageOutput:
    """The output of a stage, which is that of its last kept block."""

    size: int
    stage: str
    parts: tuple[int, ...]


Layout = FixedWidth | LayerOutput | Union | Concat | Placed | Repeated | StageOutput


def channel_masks(layouts: Sequence[Layout], shape: Shape) -> list[int]:
    """The mask of each layout.

    >>> layouts = [LayerOutput(4, "a"), LayerOutput(4, "b"), Union(4, (0, 1)), Concat(8, (0, 1))]
    >>> [f"{mask:b}" for mask in channel_masks(layouts, Shape({"a": 1, "b": 3}))]
    ['1', '111', '111', '1110001']
    """
    masks: list[int] = []
    for layout in layouts:
        match layout:
            case LayerOutput(_, layer):
                chosen = shape.channels.get(layer)
                if chosen is None:
                    mask = (1 << shape.widths[layer]) - 1
                else:
                    mask = sum(1 << i for i in chosen)
            case Union(_, parts):
                mask = 0
                for part in parts:
                    mask |= masks[part]
            case StageOutput(_, stage, parts):
                mask = masks[parts[shape.depths[stage] - 1]]
            case FixedWidth(size):
                mask = (1 << size) - 1
            case Concat(_, parts):
                mask = offset = 0
                for part in parts:
                    mask |= masks[part] << offset
                    offset += max(layouts[part].size, masks[part].bit_length())
            case Placed():
                mask = layout.mask(masks[layout.part])
            case Repeated(_, part, times):
                run = (1 << times) - 1
                mask = sum(run << (i * times) for i in set_bits(masks[part]))
        masks.append(mask)
    return masks


def set_bits(mask: int) -> list[int]:
    """The positions of the bits that are 1.

    >>> set_bits(0b1011)
    [0, 1, 3]
    """
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def kept_channels(layouts: Sequence[Layout], masks: Sequence[int], index: int) -> list[int]:
    """The index in the original tensor of each channel that is kept; -1 for a new channel.

    >>> layouts = [LayerOutput(2, "a"), LayerOutput(2, "b"), Concat(4, (0, 1))]
    >>> kept_channels(layouts, channel_masks(layouts, Shape({"a": 3, "b": 1})), 2)
    [0, 1, -1, 2]
    """
    match layouts[index]:
        case Concat(_, parts):
            numbers, offset = [], 0
            for part in parts:
                inner = kept_channels(layouts, masks, part)
                numbers += [n + offset if n >= 0 else n for n in inner]
                offset += layouts[part].size
            return numbers
        case Repeated(_, part, times):
            inner = kept_channels(layouts, masks, part)
            return [n * times + k if n >= 0 else n for n in inner for k in range(times)]
        case Placed(size, _, positions, True):
            # in memory the new channels come before the zeros at the end
            kept = set_bits(masks[index])
            new = [-1 for i in kept if i >= size]
            last = positions[-1]
            return [i for i in kept if i <= last] + new + [i for i in kept if last < i < size]
        case layout:
            return [i if i < layout.size else -1 for i in set_bits(masks[index])]
