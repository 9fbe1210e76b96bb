"""What a shape costs: exact counts on the network that `slim` builds, without building it.

`macs` are the multiply-accumulates of convolutions and linear layers for one image (what the paper
calls FLOPs); the bias of a linear layer counts one per output channel, however many pixels or
tokens the layer is applied to. The bias of a convolution, norms, activations, pooling and adds
count nothing. In a module that cannot change, such as attention, all products of matrices count:
those of the projections, and of queries with keys and weights with values. `params` are all
parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from ..resizing import GROUPED
from ..settings import Metric
from ..shape import Shape
from ..tracing.reader import Layer
from ..tracing.space import Space

__all__ = [
    "Cost",
    "LayerCost",
    "cost_coefficients",
    "layer_cost",
    "layer_costs",
    "macs",
    "params",
    "total_cost",
    "with_norms",
]


class Cost(NamedTuple):
    """Multiply-accumulates for one image, and parameters."""

    macs: int
    params: int


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """One layer of a network of some shape: its size and its cost."""

    name: str
    kind: str
    kernel: tuple[int, ...]
    inputs: int
    outputs: int
    size: tuple[int, ...]
    macs: int
    params: int


def macs(space: Space, shape: Shape) -> int:
    """Multiply-accumulates for one image.

    >>> from transformable import Space, models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> macs(space, space.full)
    40813194
    """
    return total_cost(space, shape).macs


def params(space: Space, shape: Shape) -> int:
    """All parameters.

    >>> from transformable import Space, models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> params(space, space.full)
    272282
    """
    return total_cost(space, shape).params


def layer_costs(space: Space, shape: Shape) -> list[LayerCost]:
    """The cost of each layer, in order of execution."""
    space.check(shape)
    return [
        LayerCost(
            name=layer.name,
            kind=layer.kind,
            kernel=layer.kernel,
            inputs=c_in,
            outputs=c_out,
            size=layer.size,
            **layer_cost(layer, c_in, c_out)._asdict(),
        )
        for layer, c_in, c_out in sorted(_layers(space, shape), key=lambda row: row[0].order)
    ]


def with_norms(rows: Sequence[LayerCost]) -> list[LayerCost]:
    """The rows without those of norms, whose parameters go to the layer before."""
    shown: list[LayerCost] = []
    for row in rows:
        if row.kind == "norm" and shown:
            shown[-1] = replace(shown[-1], params=shown[-1].params + row.params)
        else:
            shown.append(row)
    return shown


def total_cost(space: Space, shape: Shape) -> Cost:
    """The cost of the network that has this shape."""
    space.check(shape)
    costs = [layer_cost(*row) for row in _layers(space, shape)]
    return Cost(sum(cost.macs for cost in costs), sum(cost.params for cost in costs))


def _layers(space: Space, shape: Shape) -> Iterator[tuple[Layer, int, int]]:
    """The layers of the network of this shape, with their numbers of input and output channels."""
    masks = space.masks(shape)
    widths = [mask.bit_count() for mask in masks]
    for layer in space.layers_of(shape, masks):
        yield layer, widths[layer.inputs], widths[layer.outputs]


def layer_cost(layer: Layer, c_in: int, c_out: int) -> Cost:
    """The cost of a layer with c_in input and c_out output channels."""
    match layer.kind:
        case "conv" | "transposed conv" | "grouped conv" | "depthwise conv":
            weights = c_out * (layer.group_inputs if layer.kind in GROUPED else c_in) * layer.area
            return Cost(weights * layer.pixels, weights + layer.by_output * c_out + layer.params)
        case "norm":
            return Cost(0, layer.by_output * c_out + layer.params)
        case "linear":
            weights = c_out * c_in
            macs = weights * layer.pixels + layer.bias * c_out
            return Cost(macs, weights + layer.by_output * c_out + layer.params)
        case _:
            return Cost(layer.macs, layer.params)


@lru_cache(maxsize=10_000)
def cost_coefficients(layer: Layer, metric: Metric) -> tuple[int, int, int, int]:
    """The a, b, c, d with which a layer costs a + b c_in + c c_out + d c_in c_out."""
    sizes = ((0, 0), (1, 0), (0, 1), (1, 1))
    a, a_b, a_c, total = (getattr(layer_cost(layer, *size), metric) for size in sizes)
    return a, a_b - a, a_c - a, total - a_b - a_c + a
