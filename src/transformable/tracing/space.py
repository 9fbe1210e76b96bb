"""Space: what may change in a network, found by tracing it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Literal, Self

import torch
from torch import fx, nn

from ..settings import RATIOS
from ..shape import Shape
from ..spelling import nearest
from . import OUTPUT, Join, Layer, Layout, Stage, evaluate, read

__all__ = ["Space"]

Residual = Literal["pad", "project", "tied"]
Search = Literal["both", "width", "depth"]

TRIES = 20_000


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """The layers and stages of a network with their candidate sizes, and what depends on them.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> space.widths["stem.0"], space.depths["stages.0"]
    ((4, 6, 8, 9, 11, 12, 14, 16), (1, 2, 3))
    >>> len(space.widths), f"{space.count:.1e}"
    (19, '3.9e+18')
    """

    widths: Mapping[str, tuple[int, ...]]
    """The candidate widths of each layer, or of the first of a group that shares one, in order."""
    depths: Mapping[str, tuple[int, ...]]
    """The candidate depths of each stage, in order."""
    full: Shape
    """The network as it is."""
    shares: Mapping[str, str]
    """The layers that have no width of their own, and the layer that sets it."""
    fixed: Mapping[str, str]
    """The layers inside the network that keep their width, and why."""
    residual: Residual
    input_shape: tuple[int, int, int]
    state: Mapping[str, tuple[int, ...]]
    """The names and sizes in the state dict of the network."""
    graph: fx.Graph
    stages: Mapping[str, Stage]
    layouts: Sequence[Layout]
    layout_of: Mapping[fx.Node, int]
    layers: Sequence[Layer]
    joins: Sequence[Join]

    @classmethod
    def trace(
        cls,
        model: nn.Module,
        input_shape: tuple[int, int, int],
        *,
        ratios: Sequence[float] = RATIOS,
        divisor: int = 1,
        depth_step: int = 1,
        residual: Residual = "pad",
        search: Search = "both",
    ) -> Self:
        """Read a network once, on an image of `input_shape` (channels, height, width).

        A layer of n channels has the candidates n * ratio, rounded to a multiple of `divisor`; a
        stage of n blocks the depths 1, 1 + depth_step, ..., and n. `residual` says what becomes of
        an add whose sides differ in width: the narrower is padded, or projected by a 1x1
        convolution, or all layers of the stream are tied to one width.
        """
        _check_options(input_shape, ratios, divisor, depth_step, residual, search)
        reading = read(model, (input_shape[0], input_shape[1], input_shape[2]), residual)
        owners = list(reading.maker)
        heads = reading.ties.groups(owners)
        layouts, where = reading.ties.settle(heads)
        sizes = {
            name: reading.size(reading.layers[name].outputs)
            for name in owners
            if heads.get(name) == name
        }

        def moved(layer: Layer) -> Layer:
            return replace(layer, inputs=where[layer.inputs], outputs=where[layer.outputs])

        blocks = {name: len(stage.blocks) for name, stage in reading.stages.items()}
        reasons = {**reading.ties.reasons(owners), **reading.fixed}
        return cls(
            widths={
                name: (size,) if search == "depth" else _candidates(size, ratios, divisor)
                for name, size in sizes.items()
            },
            depths={
                name: (n,) if search == "width" else _depths(n, depth_step)
                for name, n in blocks.items()
            },
            full=Shape(sizes, blocks),
            shares={name: head for name, head in heads.items() if name != head},
            fixed={name: why for name, why in reasons.items() if why != OUTPUT},
            residual=residual,
            input_shape=input_shape,
            state={name: tuple(tensor.shape) for name, tensor in model.state_dict().items()},
            graph=reading.graph,
            stages=reading.stages,
            layouts=layouts,
            layout_of={node: where[index] for node, index in reading.layout.items()},
            layers=[moved(layer) for layer in reading.layers.values()],
            joins=[
                replace(
                    join,
                    operands=tuple(where[i] for i in join.operands),
                    parts=tuple(where[i] for i in join.parts),
                    outputs=where[join.outputs],
                    projection=tuple(moved(layer) for layer in join.projection),
                )
                for join in reading.joins
            ],
        )

    @property
    def count(self) -> int:
        """How many shapes the space holds."""
        candidates = (*self.widths.values(), *self.depths.values())
        return prod(len(sizes) for sizes in candidates)

    def at(self, places: Mapping[str, int]) -> Shape:
        """The shape of these candidates, each by its place in its row."""
        return Shape(
            {name: sizes[places[name]] for name, sizes in self.widths.items()},
            {name: sizes[places[name]] for name, sizes in self.depths.items()},
        )

    @property
    def smallest(self) -> Shape:
        """Every candidate at its smallest."""
        return self.at(dict.fromkeys((*self.widths, *self.depths), 0))

    @property
    def largest(self) -> Shape:
        """Every candidate at its largest; more than `full` where ratios are above 1."""
        return self.at(dict.fromkeys((*self.widths, *self.depths), -1))

    def check(self, shape: Shape) -> None:
        """A ValueError names what does not fit this network: sizes need not be candidates."""
        kinds = (
            ("layer", shape.widths, self.full.widths),
            ("stage", shape.depths, self.full.depths),
        )
        for kind, given, known in kinds:
            for name in given:
                if name not in known:
                    raise ValueError(self._unknown(kind, name, list(known)))
            for name in known:
                if name not in given:
                    raise ValueError(f"the shape says nothing of the {kind} {name!r}")
        for name, depth in shape.depths.items():
            if depth > self.full.depths[name]:
                blocks = self.full.depths[name]
                raise ValueError(f"the depth of {name!r} must be 1 to {blocks}, not {depth}")
        for name, picked in shape.channels.items():
            if picked[-1] >= self.full.widths[name]:
                full = self.full.widths[name]
                raise ValueError(f"channel {picked[-1]} of {name!r} is not there: it has {full}")

    def _unknown(self, kind: str, name: str, known: list[str]) -> str:
        if name in self.shares:
            return f"the layer {name!r} shares the width of {self.shares[name]!r}: give that one"
        if name in self.fixed:
            return f"the layer {name!r} keeps its width: {self.fixed[name]}"
        return f"the network has no {kind} {name!r} that may change; {nearest(name, known)}"

    def masks(self, shape: Shape) -> list[int]:
        """Which channels of each layout are there."""
        return evaluate(self.layouts, shape)

    def alive(self, part: Layer | Join, shape: Shape) -> bool:
        """Whether the shape keeps the block that this is in."""
        return part.block is None or part.block[1] < shape.depths[part.block[0]]

    def projected(self, join: Join, masks: Sequence[int]) -> bool:
        """Whether the shortcut of this join needs a projection."""
        return join.shortcut is not None and len({masks[i] for i in join.operands}) > 1

    def layers_of(self, shape: Shape, masks: Sequence[int]) -> Iterator[Layer]:
        """The layers of the network that has this shape."""
        derived = shape != self.full
        for layer in self.layers:
            if self.alive(layer, shape) and (layer.derived or not derived):
                yield layer
        for join in self.joins:
            if self.projected(join, masks) and self.alive(join, shape):
                yield from join.projection

    def sample(
        self, generator: torch.Generator, budget: tuple[float, float] | float | None = None
    ) -> Shape:
        """A shape drawn uniformly from the candidates, again until its MACs are in the budget.

        A budget is a band (low, high) of MACs, or a number that stands for itself ± 5 %; numbers
        up to 1 are fractions of the network as it is.
        """
        from ..costing.cost import macs  # which counts on spaces

        def pick(candidates: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
            return {
                name: sizes[int(torch.randint(len(sizes), (), generator=generator))]
                for name, sizes in candidates.items()
            }

        if budget is None:
            return Shape(pick(self.widths), pick(self.depths))
        low, high = budget if isinstance(budget, tuple) else (0.95 * budget, 1.05 * budget)
        if not 0 <= low <= high or high == 0:
            raise ValueError(f"a budget must be above 0, as a band (low, high), not {budget}")
        full = macs(self, self.full)
        if high <= 1.05:
            low, high = low * full, high * full
        seen = []
        for _ in range(TRIES):
            shape = Shape(pick(self.widths), pick(self.depths))
            seen.append(macs(self, shape))
            if low <= seen[-1] <= high:
                return shape
        raise ValueError(
            f"none of {TRIES:,} random shapes has {low:,.0f} to {high:,.0f} MACs; they have "
            f"{min(seen):,} to {max(seen):,}: widen the budget or change the ratios"
        )


def _check_options(
    input_shape: tuple[int, int, int],
    ratios: Sequence[float],
    divisor: int,
    depth_step: int,
    residual: str,
    search: str,
) -> None:
    _one_of("residual", residual, ("pad", "project", "tied"))
    _one_of("search", search, ("both", "width", "depth"))
    if not ratios or not all(0 < ratio < 1000 for ratio in ratios):
        raise ValueError(f"ratios must be above 0, not {tuple(ratios)}")
    for name, value in (("divisor", divisor), ("depth_step", depth_step)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {value}")
    if len(input_shape) != 3 or min(input_shape) < 1:
        raise ValueError(f"input_shape must be (channels, height, width), not {input_shape}")


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")


def _candidates(size: int, ratios: Sequence[float], divisor: int) -> tuple[int, ...]:
    """Exact arithmetic: as floats, 10 * 0.7 would lose a channel.

    >>> _candidates(10, (0.7, 1.0), 1), _candidates(64, (0.3, 0.7, 1.0, 1.1), 8)
    ((7, 10), (16, 48, 64, 72))
    """
    widths = set()
    for ratio in ratios:
        exact = size * Fraction(str(ratio))
        # to the nearest multiple, but a layer that is left as it is keeps its width
        steps = exact // divisor if divisor == 1 else (2 * exact + divisor) // (2 * divisor)
        width = size if exact == size else max(divisor, int(steps) * divisor)
        widths.add(width if exact > size else min(width, size))
    return tuple(sorted(widths))


def _depths(blocks: int, step: int) -> tuple[int, ...]:
    """
    >>> _depths(3, 1), _depths(18, 2)
    ((1, 2, 3), (1, 3, 5, 7, 9, 11, 13, 15, 17, 18))
    """
    return tuple(sorted({*range(1, blocks + 1, step), blocks}))
