"""The latency of a shape: the sum of the times of its network's parts, measured at many widths.

All times are nanoseconds. The times were measured on one machine under `Conditions`; what measures
them is in the package `timing`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..settings import Runtime
from ..shape import Shape
from ..tracing.layouts import Concat, Layout, Repeated
from ..tracing.reader import Block
from ..tracing.space import Space
from .possible_masks import PossibleMasks
from .terms import Term

__all__ = ["ALIGNED", "Conditions", "Latency", "Surface", "TimedPart", "is_sum", "whole_blocks"]

Floats = NDArray[np.float64]

ALIGNED = 4
"""onnxruntime computes convolutions in blocks of channels only if their inputs are a multiple of
this."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a latency depends on besides the network."""

    machine: str
    """The name of the processor."""
    runtime: Runtime = "torch"
    batch: int = 1
    threads: int = 1
    dtype: str = "float32"

    def __str__(self) -> str:
        threads = "thread" if self.threads == 1 else "threads"
        return f"{self.runtime} at batch {self.batch}, {self.threads} {threads}, on {self.machine}"


@dataclass(frozen=True)
class Surface:
    """A time by two widths: bilinear between the widths that were measured, and beyond them.

    >>> Surface((0, 10), (0, 10), np.array([[0.0, 10.0], [10.0, 40.0]])).at([5], [0, 10]).tolist()
    [[5.0, 25.0]]
    """

    ins: tuple[int, ...]
    outs: tuple[int, ...]
    times: Floats
    block: int = 1
    """Channels that are computed together: a width takes as long as the next multiple of this."""

    def at(self, ins: Sequence[float], outs: Sequence[float]) -> Floats:
        """The times of all pairs of these widths."""
        rows, columns = (
            hats(knots, whole_blocks(widths, self.block))
            for knots, widths in ((self.ins, ins), (self.outs, outs))
        )
        times: Floats = rows @ self.times @ columns.T
        return times

    def to_dict(self) -> dict[str, Any]:
        return {
            "ins": list(self.ins),
            "outs": list(self.outs),
            "times": self.times.tolist(),
            "block": self.block,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        times = np.asarray(values["times"], dtype=np.float64)
        surface = cls(tuple(values["ins"]), tuple(values["outs"]), times, int(values["block"]))
        if times.shape != (len(surface.ins), len(surface.outs)) or not np.isfinite(times).all():
            raise ValueError("a surface has a finite time for each pair of its widths")
        if surface.block < 1:
            raise ValueError(f"a block has at least 1 channel, not {surface.block}")
        return surface


def whole_blocks(widths: Sequence[float] | Floats, block: int) -> Floats:
    """The widths, each rounded up to a multiple of the block.

    >>> whole_blocks((3, 16, 17), 16).tolist()
    [16.0, 16.0, 32.0]
    """
    rounded: Floats = np.ceil(np.asarray(widths, dtype=np.float64) / block) * block
    return rounded


def hats(knots: Sequence[int], widths: Sequence[float] | Floats) -> Floats:
    """How much the value at each knot counts at each width, for linear interpolation.

    >>> hats((2, 4, 8), (3, 8, 10)).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, -0.5, 1.5]]
    """
    weights = np.zeros((len(widths), len(knots)))
    if len(knots) == 1:
        return np.ones_like(weights)
    at = np.asarray(widths, dtype=np.float64)
    left = np.clip(np.searchsorted(knots, at, side="right") - 1, 0, len(knots) - 2)
    low, high = np.take(knots, left), np.take(knots, left + 1)
    share = (at - low) / (high - low)
    rows = np.arange(len(at))
    weights[rows, left], weights[rows, left + 1] = 1 - share, share
    return weights


def is_sum(layout: Layout) -> bool:
    """Whether a width is a sum of others; times have to be linear in it."""
    return isinstance(layout, Concat | Repeated)


@dataclass(frozen=True, kw_only=True)
class TimedPart:
    """An operation of a network, and its time by the layouts that it depends on."""

    name: str
    layer: str
    """The layer that it belongs to: its own, or the last one before it."""
    ins: int | None
    outs: int | None
    block: Block
    original_only: bool
    surface: Surface
    unequal: Surface | None = None
    """For an add, its time if its operands have different channels."""
    unaligned: Surface | None = None
    """Its time if it does not read a multiple of `ALIGNED` channels, where that is another."""

    def time(self, masks: Sequence[int]) -> float:
        """Its time in the network of a shape with these masks."""
        ins, outs = (None if i is None else masks[i] for i in (self.ins, self.outs))
        widths = ([0 if mask is None else mask.bit_count()] for mask in (ins, outs))
        if self.unequal is not None and ins != outs:
            return float(self.unequal.at(*widths)[0, 0])
        return float(self._at(*widths)[0, 0])

    def _at(self, ins: Sequence[float], outs: Sequence[float]) -> Floats:
        """The times of all pairs of these widths, for an add those of equal operands."""
        times = self.surface.at(ins, outs)
        if self.unaligned is None:
            return times
        # a layer that treats each channel by itself has only outputs
        read = np.asarray(outs)[None] if self.ins is None else np.asarray(ins)[:, None]
        chosen: Floats = np.where(read % ALIGNED == 0, times, self.unaligned.at(ins, outs))
        return chosen

    def terms(self, masks: PossibleMasks) -> Iterator[Term]:
        """Its time as a sum of terms, each over the masks of two layouts."""
        if self.unequal is not None and not any(
            index is not None and is_sum(masks.layouts[index]) for index in (self.ins, self.outs)
        ):
            assert self.ins is not None
            assert self.outs is not None
            widths = [[m.bit_count() for m in masks.of(index)] for index in (self.ins, self.outs)]
            same = [[a == b for b in masks.of(self.outs)] for a in masks.of(self.ins)]
            times = np.where(same, self.surface.at(*widths), self.unequal.at(*widths))
            yield self._term(self.ins, self.outs, times)
            return
        for ins, points_in, weights_in in _pieces(masks, self.ins):
            for outs, points_out, weights_out in _pieces(masks, self.outs):
                times = weights_in @ self._at(points_in, points_out) @ weights_out.T
                yield self._term(ins, outs, times)

    def _term(self, ins: int | None, outs: int | None, times: Floats) -> Term:
        return Term(
            block=self.block, ins=ins, outs=outs, values=times, original_only=self.original_only
        )


def _pieces(
    masks: PossibleMasks, index: int | None
) -> Iterator[tuple[int | None, Sequence[float], Floats]]:
    """The layouts that a width is a sum of, each with points and with the weights of the times at
    these points that add up to its contribution, for each of its masks."""
    if index is None:
        yield None, [0.0], np.ones((1, 1))
    elif not is_sum(masks.layouts[index]):
        widths = masks.widths(index).tolist()
        yield index, widths, np.eye(len(widths))
    else:
        yield None, [0.0], np.ones((1, 1))
        for piece, times in masks.pieces(index):
            added = times * masks.widths(piece).numpy()
            yield piece, [0.0, 1.0], np.stack([-added, added], 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Latency:
    """The times of all parts of a network, on one machine."""

    conditions: Conditions
    full: float
    """The time of the unpruned network, as it was measured."""
    parts: Sequence[TimedPart]
    constant: float = 0.0
    """The overhead of a call, besides the parts."""
    scale: float = 1.0
    """A factor on all times, from measured networks near the budget."""
    timer: Callable[[Shape], float] | None = field(default=None, repr=False)
    """Times the network of a shape, scaled so that the full network takes ``full``."""

    def cost(self, space: Space, shape: Shape) -> int:
        """The time of the network that has this shape, in whole nanoseconds."""
        return round(self.scale * (self.constant + sum(self.times(space, shape).values())))

    def times(self, space: Space, shape: Shape) -> dict[str, float]:
        """The time of each part that the shape keeps."""
        space.check(shape)
        masks, original = space.masks(shape), shape == space.full
        return {
            part.name: part.time(masks)
            for part in self.parts
            if space.keeps(part, shape) and (original or not part.original_only)
        }

    def terms(self, masks: PossibleMasks) -> Iterator[Term]:
        """The same as a sum of terms."""
        constant = np.full((1, 1), self.scale * self.constant)
        yield Term(block=None, ins=None, outs=None, values=constant)
        for part in self.parts:
            for term in part.terms(masks):
                yield replace(term, values=self.scale * term.values)

    def bounds(self, space: Space) -> tuple[int, int]:
        """No shape takes less than the first or more than the second: what all parts take at the
        widths at which each of them is fastest, or slowest."""
        masks, low, high = PossibleMasks(space), self.constant, self.constant
        for part in self.parts:
            values = [term.values for term in part.terms(masks)]
            least, most = sum(each.min() for each in values), sum(each.max() for each in values)
            kept = space.keeps(part, space.smallest) and not part.original_only
            low += least if kept else min(0.0, least)
            high += most if kept else max(0.0, most)
        return floor(self.scale * low), ceil(self.scale * high)

    def by_layer(self, space: Space, shape: Shape) -> dict[str, float]:
        """The time of each layer with the operations after it, up to the next layer."""
        layers: dict[str, float] = {}
        found = self.times(space, shape)
        for part in self.parts:
            if part.name in found:
                layers[part.layer] = layers.get(part.layer, 0.0) + self.scale * found[part.name]
        return layers

    def corrected(self, space: Space, shape: Shape, measured: float) -> Self:
        """The same times, scaled so that this shape takes the measured time."""
        return replace(self, scale=self.scale * measured / self.cost(space, shape))
