"""What ``tas cost`` does."""

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from rich.box import SIMPLE
from rich.console import Group
from rich.table import Table
from rich.text import Text

from .. import data
from ..costing.cost import LayerCost, layer_costs, with_norms
from ..costing.published import find, published
from ..networks.build import build_network
from ..settings import Residual
from ..shape import Shape
from ..tracing.fixed_layers import describe_fixed
from ..tracing.space import Space
from .outcome import Outcome
from .query_options import Cost

__all__ = ["cost"]

COMPACT: dict[str, Any] = {"box": SIMPLE, "collapse_padding": True, "pad_edge": False}


@dataclass(frozen=True, kw_only=True)
class CostOutcome(Outcome):
    """The cost of each layer of a network, and the total."""

    rows: list[LayerCost]

    def show(self) -> Group:
        table = Table(title=self.title, title_justify="left", show_footer=True, **COMPACT)
        table.add_column("layer", "total", overflow="fold")
        table.add_column("kernel")
        for name in ("in", "out", "size"):
            table.add_column(name, justify="right")
        table.add_column("MACs", f"{self.result['macs']:,}", justify="right")
        table.add_column("params", f"{self.result['params']:,}", justify="right")
        table.add_column("share", "100.0 %", justify="right")
        for row in with_norms(self.rows):
            table.add_row(
                row.name,
                "x".join(map(str, row.kernel)) if "conv" in row.kind else row.kind,
                str(row.inputs),
                str(row.outputs),
                "x".join(map(str, row.size)) if prod(row.size) > 1 else "",
                f"{row.macs:,}",
                f"{row.params:,}",
                f"{row.macs / max(1, self.result['macs']):.1%}".replace("%", " %"),
            )
        return Group(table, *map(Text, describe_fixed(self.result["fixed"])))


@dataclass(frozen=True, kw_only=True)
class PublishedOutcome(Outcome):
    """The networks that the paper's authors have published."""

    def show(self) -> Table:
        table = Table(title=self.title, title_justify="left", **COMPACT)
        for name in ("name", "network", "dataset"):
            table.add_column(name, overflow="fold")
        for name in ("MACs", "params", "accuracy"):
            table.add_column(name, justify="right")
        for network in published():
            accuracy = "" if network.accuracy is None else f"{network.accuracy:.2f} %"
            table.add_row(
                network.id.rpartition("/")[2],
                network.network,
                network.dataset,
                f"{network.macs:,}",
                f"{network.params:,}",
                accuracy,
            )
        return table


def cost(options: Cost, command: str) -> Outcome:
    """Count the MACs and parameters of a network."""
    if options.published == "list":
        title = "networks published by the paper's authors; accuracies are the paper's"
        result = {"published": [asdict(network) for network in published()]}
        return PublishedOutcome(title=title, result=result)
    if options.published is not None:
        network = find(options.published)
        sizes = network.input_shape, network.num_classes
        space = _space(network.network, *sizes, options, "project")
        return _costs(network.id, space, network.shape(space))
    input_shape, classes = _sizes(options)
    space = _space(options.model, input_shape, classes, options, "pad")
    shape = space.full if options.shape is None else Shape.read(options.shape)
    size = "x".join(map(str, input_shape))
    return _costs(f"{options.model} on {size}, {classes} classes", space, shape)


def _sizes(options: Cost) -> tuple[tuple[int, int, int], int]:
    """The size of an image and the number of classes."""
    size = options.image_size
    shape = None if size is None else (3, size, size)
    if shape is not None and options.num_classes is not None:
        return shape, options.num_classes
    info = data.info(options.data)
    return shape or info.input_shape, options.num_classes or info.num_classes


def _space(
    model: str, input_shape: tuple[int, int, int], classes: int, options: Cost, auto: Residual
) -> Space:
    """The sizes of a network; ``auto`` is the value that --residual auto stands for."""
    network = build_network(model, num_classes=classes, in_channels=input_shape[0])
    residual = auto if options.residual == "auto" else options.residual
    return Space.trace(network, input_shape, residual=residual, leaf=options.leaf)


def _costs(title: str, space: Space, shape: Shape) -> CostOutcome:
    rows = layer_costs(space, shape)
    result = {
        "macs": sum(row.macs for row in rows),
        "params": sum(row.params for row in rows),
        "input_shape": space.input_shape,
        "residual": space.residual,
        "shape": shape.to_dict(),
        "fixed": space.fixed,
        "layers": [asdict(row) for row in rows],
    }
    return CostOutcome(title=title, result=result, rows=rows)
