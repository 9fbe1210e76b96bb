"""Space: what may change in a network, found by tracing it."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm, prod
from typing import Protocol, Self, get_args

import torch
from torch import fx, nn

from ..settings import RATIOS, Residual, Sizes
from ..shape import Shape
from ..spelling import nearest
from .layouts import LayerOutput, Layout, channel_masks
from .read_network import OUTPUT, read_network
from .reader import Block, Layer, ResidualAdd, Split
from .stages import Stage

__all__ = ["Space"]


class InBlock(Protocol):
    """A part of a network that is dropped with its block."""

    @property
    def block(self) -> Block: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Space:
    """The layers and stages of a network with their candidate sizes, and the layouts they decide.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> space.widths["stem.0"], space.depths["stages.0"]
    ((4, 6, 8, 9, 11, 12, 14, 16), (1, 2, 3))
    >>> len(space.widths), f"{space.count:.1e}"
    (19, '3.9e+18')
    """

    widths: Mapping[str, tuple[int, ...]]
    """The candidate widths of each layer (of a group that shares one: its first), in order."""
    depths: Mapping[str, tuple[int, ...]]
    """The candidate depths of each stage, in order of execution."""
    full: Shape
    """The shape of the network as it is."""
    shares: Mapping[str, str]
    """For each layer without a width of its own, the layer whose width it shares."""
    units: Mapping[str, int]
    """How many channels of a layer stay together, where it is more than one: a grouped convolution
    or norm loses whole groups."""
    fixed: Mapping[str, str]
    """The layers inside the network that keep their width, and why."""
    residual: Residual
    """What an add does with operands of different widths."""
    input_shape: tuple[int, ...]
    """The shape of the image that the network was traced with."""
    state: Mapping[str, tuple[int, ...]]
    """The shape of each tensor in the state dict of the network."""
    graph: fx.Graph
    """The network as torch.fx has traced it."""
    stages: Mapping[str, Stage]
    """The containers of blocks in a row whose depth is free."""
    layouts: Sequence[Layout]
    """Which channels the tensors have, as functions of the shape."""
    layout_of: Mapping[fx.Node, int]
    """The index in `layouts` of each node's output."""
    axis_of: Mapping[fx.Node, int]
    """The axis of a node's output that has its channels, where it is not the second."""
    layers: Sequence[Layer]
    """The layers that have weights and cost something."""
    adds: Sequence[ResidualAdd]
    """The adds whose operands may have different widths."""
    splits: Sequence[Split]
    """Where a tensor is split along its channels."""
    overwrites: Mapping[fx.Node, tuple[fx.Node, ...]]
    """The nodes that work in place, and the inputs that they change."""
    leaf: tuple[str, ...]
    """The modules that were kept whole on request (`leaf`)."""

    @classmethod
    def trace(
        cls,
        model: nn.Module,
        input_shape: tuple[int, ...],
        *,
        ratios: Sequence[float] = RATIOS,
        divisor: int = 1,
        depth_step: int = 1,
        residual: Residual = "pad",
        search: Sizes = "both",
        leaf: Sequence[str] = (),
    ) -> Self:
        """Read a network once, on an image of `input_shape` (channels, height, width).

        A layer of n channels has the candidates n * ratio, rounded to a multiple of `divisor`; a
        stage of n blocks the depths 1, 1 + depth_step, ..., and n. `residual` says how an add
        treats operands of different widths: the narrower is padded ("pad"), the shortcut gets a
        1x1 convolution ("project"), or all layers of the stream share one width ("tied"). The
        modules named in `leaf` are kept whole, with the widths around them.
        """
        _check_options(input_shape, ratios, divisor, depth_step, residual, search)
        reader = read_network(model, input_shape, residual, leaf)
        makers = list(reader.maker)
        groups = reader.ties.groups(makers)
        layouts, new_index = reader.ties.settle(groups)
        own = [name for name in makers if groups.get(name) == name]
        made = {n.layer: n.size for n in reader.layouts if isinstance(n, LayerOutput)}
        sizes = {name: made[name] for name in own}

        def settled(layer: Layer) -> Layer:
            inputs, outputs = new_index[layer.inputs], new_index[layer.outputs]
            return replace(layer, inputs=inputs, outputs=outputs)

        units = {name: unit for name in own if (unit := reader.ties.unit(name)) > 1}
        blocks = {name: len(stage.blocks) for name, stage in reader.stages.items()}
        reasons = {**reader.ties.reasons(makers), **reader.fixed}
        return cls(
            widths={
                name: (size,)
                if search == "depth"
                else _candidates(size, ratios, lcm(divisor, units.get(name, 1)))
                for name, size in sizes.items()
            },
            depths={
                name: (n,) if search == "width" else (*range(1, n, depth_step), n)
                for name, n in blocks.items()
            },
            full=Shape(sizes, blocks),
            shares={name: first for name, first in groups.items() if name != first},
            units=units,
            fixed={name: why for name, why in reasons.items() if why != OUTPUT},
            residual=residual,
            input_shape=input_shape,
            state={name: tuple(tensor.shape) for name, tensor in model.state_dict().items()},
            graph=reader.graph,
            stages=reader.stages,
            layouts=layouts,
            layout_of={node: new_index[index] for node, index in reader.layout.items()},
            axis_of={node: axis for node, axis in reader.axis.items() if axis != 1},
            layers=[settled(layer) for layer in reader.layers.values()],
            splits=[
                replace(split, parts=tuple(new_index[part] for part in split.parts))
                for split in reader.splits
            ],
            adds=[
                replace(
                    add,
                    operands=tuple(new_index[i] for i in add.operands),
                    parts=tuple(new_index[i] for i in add.parts),
                    outputs=new_index[add.outputs],
                    projection=tuple(settled(layer) for layer in add.projection),
                )
                for add in reader.adds
            ],
            overwrites={
                node: out.overwrites for node, out in reader.outputs.items() if out.overwrites
            },
            leaf=tuple(leaf),
        )

    def retrace(self, network: nn.Module, residual: Residual | None = None) -> "Space":
        """The space of a network that was made from the one of this space."""
        with warnings.catch_warnings(action="ignore"):  # already shown for this space
            return Space.trace(
                network, self.input_shape, residual=residual or self.residual, leaf=self.leaf
            )

    @property
    def candidates(self) -> dict[str, tuple[int, ...]]:
        """The candidate sizes of every layer and every stage."""
        return {**self.widths, **self.depths}

    @property
    def count(self) -> int:
        """The number of shapes in the space."""
        return prod(map(len, self.candidates.values()))

    def shape_at(self, indexes: Mapping[str, int]) -> Shape:
        """The shape that has, for each layer and stage, the candidate of the given index."""
        return Shape(
            {name: sizes[indexes[name]] for name, sizes in self.widths.items()},
            {name: sizes[indexes[name]] for name, sizes in self.depths.items()},
        )

    @property
    def smallest(self) -> Shape:
        """The shape with the smallest candidates."""
        return self.shape_at(dict.fromkeys(self.candidates, 0))

    @property
    def largest(self) -> Shape:
        """The shape with the largest candidates; larger than `full` if a ratio is above 1."""
        return self.shape_at(dict.fromkeys(self.candidates, -1))

    def check(self, shape: Shape) -> None:
        """Raise a ValueError if the shape does not fit; its sizes need not be candidates."""
        full = self.full
        layers, stages = (shape.widths, full.widths), (shape.depths, full.depths)
        for kind, (given, known) in (("layer", layers), ("stage", stages)):
            for name in given:
                if name not in known:
                    raise ValueError(self._unknown(kind, name, list(known)))
            for name in known:
                if name not in given:
                    raise ValueError(f"the shape lacks the {kind} {name!r}")
        for name, depth in shape.depths.items():
            if depth > full.depths[name]:
                blocks = full.depths[name]
                raise ValueError(f"the depth of {name!r} must be 1 to {blocks}, not {depth}")
        for name, unit in self.units.items():
            if (
                shape.widths[name] % unit
                or len(self._blocks(shape, name)) * unit != shape.widths[name]
            ):
                raise ValueError(f"the layer {name!r} keeps or loses blocks of {unit} channels")
        for name, picked in shape.channels.items():
            if picked[-1] >= full.widths[name]:
                width = full.widths[name]
                raise ValueError(f"channel {picked[-1]} of {name!r} does not exist: it has {width}")

    def _blocks(self, shape: Shape, name: str) -> set[int]:
        """The blocks of a layer that the shape keeps a channel of."""
        channels = shape.channels.get(name, range(shape.widths[name]))
        return {channel // self.units[name] for channel in channels}

    def _unknown(self, kind: str, name: str, known: list[str]) -> str:
        if name in self.shares:
            return f"the layer {name!r} shares the width of {self.shares[name]!r}: give that one"
        if name in self.fixed:
            return f"the layer {name!r} keeps its width: {self.fixed[name]}"
        return f"the network has no {kind} {name!r} that may change; {nearest(name, known)}"

    def masks(self, shape: Shape) -> list[int]:
        """The mask of each layout: which of its channels the shape keeps."""
        return channel_masks(self.layouts, shape)

    def keeps(self, part: InBlock, shape: Shape) -> bool:
        """Whether the shape keeps the block of a layer or another part of the network."""
        return part.block is None or part.block[1] < shape.depths[part.block[0]]

    def layers_of(self, shape: Shape, masks: Sequence[int]) -> Iterator[Layer]:
        """The layers of the network that has this shape."""
        original = shape == self.full
        for layer in self.layers:
            if self.keeps(layer, shape) and (original or not layer.original_only):
                yield layer
        for add in self.adds:
            if len({masks[i] for i in add.operands}) > 1 and self.keeps(add, shape):
                yield from add.projection

    def sample(self, generator: torch.Generator) -> Shape:
        """A shape drawn uniformly from the candidates."""
        indexes = {
            name: int(torch.randint(len(sizes), (), generator=generator))
            for name, sizes in self.candidates.items()
        }
        return self.shape_at(indexes)


def _check_options(
    input_shape: tuple[int, ...],
    ratios: Sequence[float],
    divisor: int,
    depth_step: int,
    residual: str,
    search: str,
) -> None:
    for name, choice, known in (("residual", residual, Residual), ("search", search, Sizes)):
        if choice not in get_args(known):
            names = ", ".join(get_args(known))
            raise ValueError(f"{name} must be one of {names}, not {choice!r}")
    if not ratios or not all(0 < ratio < 1000 for ratio in ratios):
        raise ValueError(f"ratios must be above 0, not {tuple(ratios)}")
    if max(ratios) > 1 and 1 not in ratios:
        raise ValueError(
            "ratios above 1 need 1 beside them, the width that the network has: add 1 to "
            f"{tuple(ratios)}"
        )
    for name, value in (("divisor", divisor), ("depth_step", depth_step)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {value}")
    if len(input_shape) < 2 or min(input_shape) < 1:
        raise ValueError(f"input_shape must be (channels, height, width), not {input_shape}")


def _candidates(size: int, ratios: Sequence[float], divisor: int) -> tuple[int, ...]:
    """The candidate widths of a layer of `size` channels.

    >>> _candidates(10, (0.7, 1.0), 1), _candidates(64, (0.3, 0.7, 1.0, 1.1), 8)
    ((7, 10), (16, 48, 64, 72))
    """
    widths = set()
    for ratio in ratios:
        exact = size * Fraction(str(ratio))  # in floating point, 10 * 0.7 would lose a channel
        # round to the nearest multiple, but a ratio of 1 keeps the width
        steps = exact // divisor if divisor == 1 else (2 * exact + divisor) // (2 * divisor)
        width = size if exact == size else max(divisor, int(steps) * divisor)
        widths.add(width if exact > size else min(width, size))
    return tuple(sorted(widths))
