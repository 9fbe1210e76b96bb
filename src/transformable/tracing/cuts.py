"""Parts of a tensor: which layout a range of its channels has.

A layer whose outputs are taken apart somewhere (by a split, a slice, a channel shuffle) has a width
for each part. Which layers these are is known only further on, so the network is read again.
"""

from itertools import pairwise
from typing import TYPE_CHECKING

from .layouts import Concat, FixedWidth, LayerOutput, Repeated, StageOutput, Union

if TYPE_CHECKING:
    from .width_ties import WidthTies

__all__ = ["add_cut_layer", "part", "part_name"]


def part_name(layer: str, number: int) -> str:
    """The name of the width of a part of a layer's outputs."""
    return f"{layer}[{number}]"


def add_cut_layer(ties: "WidthTies", layer: str, size: int) -> tuple[int, list[str]]:
    """The layout of the outputs of a layer, and the names of its widths."""
    edges = sorted({0, *ties.cuts.get(layer, ()), size})
    if len(edges) == 2:
        return ties.new(LayerOutput(size, layer)), [layer]
    parts, names = [], []
    for number, (start, stop) in enumerate(pairwise(edges)):
        name = part_name(layer, number)
        ties.part_of[name] = layer, start
        if stop - start == 1:  # it cannot become narrower
            parts.append(ties.new(FixedWidth(1)))
        else:
            parts.append(ties.new(LayerOutput(stop - start, name)))
            names.append(name)
    return ties.new(Concat(size, tuple(parts))), names


def part(ties: "WidthTies", index: int, start: int, stop: int, reason: str) -> int:
    """The layout of the channels from `start` to `stop`.

    A layer that is not cut there yet is noted in `ties.wanted`; what is returned then is of no use.
    A layout that cannot be cut there is frozen for the reason.
    """
    index = ties.resolve(index)
    layout = ties.layouts[index]
    size = stop - start
    if size == layout.size:
        return index
    match layout:
        case Concat(_, parts):
            found = []
            for each in parts:
                low, high = max(start, 0), min(stop, ties.layouts[each].size)
                if low < high:
                    found.append(part(ties, each, low, high, reason))
                start, stop = (edge - ties.layouts[each].size for edge in (start, stop))
            return found[0] if len(found) == 1 else ties.new(Concat(size, tuple(found)))
        case StageOutput(_, stage, parts):
            inner = tuple(part(ties, each, start, stop, reason) for each in parts)
            return ties.new(StageOutput(size, stage, inner))
        case Union(_, parts):
            inner = tuple(part(ties, each, start, stop, reason) for each in parts)
            return ties.new(Union(size, inner))
        case Repeated(_, each, times) if start // times == (stop - 1) // times:
            first = start // times
            return ties.new(Repeated(size, part(ties, each, first, first + 1, reason), size))
        case Repeated(_, each, times) if start % times == 0 == stop % times:
            inside = part(ties, each, start // times, stop // times, reason)
            return ties.new(Repeated(size, inside, times))
        case Repeated(_, _, times):
            # parts of a channel at the ends, whole ones between them
            edges = {start, -(-start // times) * times, stop // times * times, stop}
            ends = sorted(edge for edge in edges if start <= edge <= stop)
            inner = tuple(part(ties, index, *pair, reason) for pair in pairwise(ends))
            return ties.new(Concat(size, inner))
        case LayerOutput(_, layer):
            ties.want_cuts(layer, (start, stop))
        case FixedWidth():
            pass
        case _:
            ties.freeze(index, reason)
    return ties.new(FixedWidth(size))
