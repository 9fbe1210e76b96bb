"""What a shape costs: exact counts on the network that `slim` builds, without building it.

`macs` are the multiply-accumulates of convolutions and linear layers for one image (what the paper
calls FLOPs); the bias of a linear layer counts one an output, that of a convolution nothing, and
so do norms, activations, pooling and adds. `params` are all parameters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..shape import Shape
from ..tracing import Layer
from ..tracing.space import Space

__all__ = ["LayerCost", "layer_cost", "layer_costs", "macs", "params", "with_norms"]


@dataclass(frozen=True, kw_only=True)
class LayerCost:
    """One layer of the network as `shape` makes it."""

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
    return _total(space, shape)[0]


def params(space: Space, shape: Shape) -> int:
    """All parameters.

    >>> from transformable import Space, models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> params(space, space.full)
    272282
    """
    return _total(space, shape)[1]


def layer_costs(space: Space, shape: Shape) -> list[LayerCost]:
    """The network layer by layer, in order of execution.

    >>> from transformable import Space, models
    >>> space = Space.trace(models.build("resnet20"), input_shape=(3, 32, 32))
    >>> layer_costs(space, space.full)[0].macs
    442368
    """
    space.check(shape)
    masks = space.masks(shape)
    return [
        LayerCost(
            name=layer.name,
            kind=layer.kind,
            kernel=layer.kernel,
            inputs=masks[layer.inputs].bit_count(),
            outputs=masks[layer.outputs].bit_count(),
            size=layer.size,
            macs=cost[0],
            params=cost[1],
        )
        for layer, cost in sorted(_costs(space, shape, masks), key=lambda pair: pair[0].order)
    ]


def with_norms(rows: Sequence[LayerCost]) -> list[LayerCost]:
    """Norms have no MACs: their parameters are counted with those of the layer before."""
    shown: list[LayerCost] = []
    for row in rows:
        if row.kind == "norm" and shown:
            shown[-1] = replace(shown[-1], params=shown[-1].params + row.params)
        else:
            shown.append(row)
    return shown


def _total(space: Space, shape: Shape) -> tuple[int, int]:
    space.check(shape)
    total_macs = total_params = 0
    for _, (layer_macs, layer_params) in _costs(space, shape, space.masks(shape)):
        total_macs += layer_macs
        total_params += layer_params
    return total_macs, total_params


def _costs(
    space: Space, shape: Shape, masks: Sequence[int]
) -> Iterator[tuple[Layer, tuple[int, int]]]:
    widths = [mask.bit_count() for mask in masks]
    for layer in space.layers_of(shape, masks):
        yield layer, layer_cost(layer, widths[layer.inputs], widths[layer.outputs])


def layer_cost(layer: Layer, c_in: int, c_out: int) -> tuple[int, int]:
    """MACs and parameters of one layer between so many channels."""
    match layer.kind:
        case "conv":
            weights = c_in * c_out * layer.area
            return weights * layer.pixels, weights + layer.bias * c_out
        case "norm":
            return 0, (layer.affine + layer.bias) * c_out
        case "depthwise conv":
            weights = c_out * layer.area
            return weights * layer.pixels, weights + layer.bias * c_out
        case "linear":
            weights = (c_in + layer.bias) * c_out
            return weights, weights
        case _:
            return layer.macs, layer.params
