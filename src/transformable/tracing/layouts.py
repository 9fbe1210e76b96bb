"""Layouts: which channels of a tensor are there, as a function of the shape.

The channels of each tensor in the network are described once, symbolically, when it is traced; for
a given shape a layout is then a bit mask over channel positions, so that a union is an `or`, a
concatenation a shift and a width a bit count: exact, and quick enough to ask at every step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..shape import Shape

__all__ = [
    "Concat",
    "Fixed",
    "Last",
    "Layout",
    "Own",
    "Place",
    "Repeat",
    "Union",
    "evaluate",
    "kept",
    "placed",
]


@dataclass(frozen=True)
class Fixed:
    """All `size` channels, whatever the shape."""

    size: int


@dataclass(frozen=True)
class Own:
    """What a layer makes: as many channels as the shape says, `size` in the network as it is."""

    size: int
    layer: str


@dataclass(frozen=True)
class Union:
    """A padded add: a channel is there if it is in any part."""

    size: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Concat:
    """The parts one after the other."""

    size: int
    parts: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """A part whose channels move to `positions`; the other places are zeros, kept if `zeros`."""

    size: int
    part: int
    positions: tuple[int, ...]
    zeros: bool


@dataclass(frozen=True)
class Repeat:
    """Flattened pixels: every channel of the part `times` over."""

    size: int
    part: int
    times: int


@dataclass(frozen=True)
class Last:
    """What leaves a stage: the output of its last kept block."""

    size: int
    stage: str
    parts: tuple[int, ...]


Layout = Fixed | Own | Union | Concat | Place | Repeat | Last


def evaluate(layouts: Sequence[Layout], shape: Shape) -> list[int]:
    """The mask of each layout; parts stand before what is made of them.

    >>> layouts = [Own(4, "a"), Own(4, "b"), Union(4, (0, 1)), Concat(8, (0, 1))]
    >>> [f"{mask:b}" for mask in evaluate(layouts, Shape({"a": 1, "b": 3}))]
    ['1', '111', '111', '1110001']
    """
    masks: list[int] = []
    for layout in layouts:
        match layout:
            case Own(_, layer):
                picked = shape.channels.get(layer)
                if picked is None:
                    mask = (1 << shape.widths[layer]) - 1
                else:
                    mask = sum(1 << i for i in picked)
            case Union(_, parts):
                mask = 0
                for part in parts:
                    mask |= masks[part]
            case Last(_, stage, parts):
                mask = masks[parts[shape.depths[stage] - 1]]
            case Fixed(size):
                mask = (1 << size) - 1
            case Concat(_, parts):
                mask = offset = 0
                for part in parts:
                    mask |= masks[part] << offset
                    offset += max(layouts[part].size, masks[part].bit_length())
            case Place():
                mask = placed(layout, masks[layout.part])
            case Repeat(_, part, times):
                run = (1 << times) - 1
                mask = sum(run << (i * times) for i in bits(masks[part]))
        masks.append(mask)
    return masks


def placed(place: Place, part: int) -> int:
    """The mask of a place; new channels come behind the last old one, or behind all kept zeros."""
    count = len(place.positions)
    beyond = (place.size if place.zeros else place.positions[-1] + 1) - count
    mask = 0
    for i in bits(part):
        mask |= 1 << (place.positions[i] if i < count else i + beyond)
    if place.zeros:
        mask |= ((1 << place.size) - 1) & ~sum(1 << p for p in place.positions)
    return mask


def bits(mask: int) -> list[int]:
    """The positions that are set.

    >>> bits(0b1011)
    [0, 1, 3]
    """
    return [i for i in range(mask.bit_length()) if mask >> i & 1]


def kept(layouts: Sequence[Layout], masks: Sequence[int], index: int) -> list[int]:
    """For each channel that is there its number in the original tensor, -1 for one that is new.

    >>> layouts = [Own(2, "a"), Own(2, "b"), Concat(4, (0, 1))]
    >>> kept(layouts, evaluate(layouts, Shape({"a": 3, "b": 1})), 2)
    [0, 1, -1, 2]
    """
    match layouts[index]:
        case Concat(_, parts):
            numbers, offset = [], 0
            for part in parts:
                numbers += [n + offset if n >= 0 else n for n in kept(layouts, masks, part)]
                offset += layouts[part].size
            return numbers
        case Repeat(_, part, times):
            inner = kept(layouts, masks, part)
            return [n * times + k if n >= 0 else n for n in inner for k in range(times)]
        case Place(size, _, positions, True):
            # in memory the new channels stand before the zeros at the end
            there = bits(masks[index])
            new = [-1 for i in there if i >= size]
            last = positions[-1]
            return [i for i in there if i <= last] + new + [i for i in there if last < i < size]
        case layout:
            return [i if i < layout.size else -1 for i in bits(masks[index])]
