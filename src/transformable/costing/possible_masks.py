"""The masks that each layout of a space can have over all its shapes."""

from collections import Counter
from functools import cache

import torch
from torch import Tensor

from ..tracing.layouts import (
    Concat,
    FixedWidth,
    LayerOutput,
    Placed,
    Repeated,
    StageOutput,
    Union,
)
from ..tracing.space import Space

__all__ = ["PossibleMasks"]


class PossibleMasks:
    """The masks of each layout, and the choices (layers and stages) that decide between them."""

    def __init__(self, space: Space) -> None:
        self.layouts = space.layouts
        self.candidates = space.candidates
        self.choices = cache(self._choices)
        self.common = cache(self._common)
        self.of = cache(self._of)
        self.united = cache(self._united)
        self.indexes = cache(self._indexes)
        self.widths = cache(self._widths)

    def _choices(self, index: int) -> frozenset[str]:
        """The layers and stages that a layout depends on."""
        layout = self.layouts[index]
        inner = frozenset[str]().union(*map(self.choices, layout.parts))
        match layout:
            case LayerOutput(_, choice) | StageOutput(_, choice):
                return inner | {choice}
        return inner

    def _common(self, indexes: tuple[int, ...]) -> list[str]:
        """The choices that more than one of these layouts depend on."""
        counts = Counter(name for index in indexes for name in self.choices(index))
        return sorted(name for name, count in counts.items() if count > 1)

    def _of(self, index: int) -> tuple[int, ...]:
        """The masks of a layout; not for concatenations, which have too many."""
        match self.layouts[index]:
            case FixedWidth(size):
                return ((1 << size) - 1,)
            case LayerOutput(_, layer):
                return tuple((1 << width) - 1 for width in self.candidates[layer])
            case Placed() as layout:
                return tuple(layout.mask(mask) for mask in self.of(layout.part))
            case Union(_, parts):
                masks = self.of(parts[0])
                for part in parts[1:]:
                    masks = self.united(masks, self.of(part))[0]
                return masks
            case StageOutput(_, stage, parts):
                outputs = [parts[depth - 1] for depth in self.candidates[stage]]
                return tuple(dict.fromkeys(mask for part in outputs for mask in self.of(part)))
        raise ValueError(
            f"the widths of {', '.join(sorted(self.choices(index)))} make too many combinations "
            "to search; use fewer ratios"
        )

    def pieces(self, index: int) -> list[tuple[int, int]]:
        """The layouts whose widths add up to that of a layout, and how often each counts."""
        match self.layouts[index]:
            case Concat(_, parts):
                return [piece for part in parts for piece in self.pieces(part)]
            case Repeated(_, part, times):
                return [(piece, times * own) for piece, own in self.pieces(part)]
        return [(index, 1)]

    def _united(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], Tensor]:
        """The masks of a union, and for each pair of masks the index of its union."""
        unions = [x | y for x in a for y in b]
        masks = tuple(dict.fromkeys(unions))
        index_of = {mask: i for i, mask in enumerate(masks)}
        return masks, torch.tensor([index_of[mask] for mask in unions])

    def _widths(self, index: int) -> Tensor:
        """The number of channels in each mask of a layout."""
        widths = [mask.bit_count() for mask in self.of(index)]
        return torch.tensor(widths, dtype=torch.float64)

    def _indexes(self, index: int, part: int) -> Tensor:
        """The index, among the masks of a layout, of each mask of its part."""
        index_of = {mask: i for i, mask in enumerate(self.of(index))}
        return torch.tensor([index_of[mask] for mask in self.of(part)])
