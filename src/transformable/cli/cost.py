"""What ``tas cost`` does."""

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from .. import data
from ..costing.cost import LayerCost, layer_costs, with_norms
from ..costing.published import find, published
from ..networks.build import build_network
from ..shape import Shape
from ..tracing.space import Space
from .query_options import Cost

__all__ = ["cost"]

COMPACT: dict[str, Any] = {"box": SIMPLE, "collapse_padding": True, "pad_edge": False}


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The layers of a network and their sums."""

    title: str
    rows: list[LayerCost]
    about: dict[str, Any]

    @property
    def result(self) -> dict[str, Any]:
        total = {"macs": sum(r.macs for r in self.rows), "params": sum(r.params for r in self.rows)}
        return {**total, **self.about, "layers": [asdict(row) for row in self.rows]}

    def show(self) -> Table:
        table = Table(title=self.title, title_justify="left", show_footer=True, **COMPACT)
        total, result = "total", self.result
        table.add_column("layer", total, overflow="fold")
        table.add_column("kernel")
        for name in ("in", "out", "size"):
            table.add_column(name, justify="right")
        table.add_column("MACs", f"{result['macs']:,}", justify="right")
        table.add_column("params", f"{result['params']:,}", justify="right")
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
                f"{row.macs / max(1, result['macs']):.1%}".replace("%", " %"),
            )
        return table


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The published networks."""

    @property
    def result(self) -> dict[str, Any]:
        return {"published": [asdict(network) for network in published()]}

    def show(self) -> Table:
        title = "networks published by the paper's authors; accuracies are the paper's"
        table = Table(title=title, title_justify="left", **COMPACT)
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


def cost(options: Cost, command: str) -> Costs | Catalogue:
    """Count the MACs and parameters of a network."""
    if options.published == "list":
        return Catalogue()
    if options.published is not None:
        network = find(options.published)
        space = _space(
            network.network, network.input_shape, network.num_classes, options, "project"
        )
        return _costs(network.id, space, network.shape(space))
    input_shape, classes = _sizes(options)
    space = _space(options.model, input_shape, classes, options, "pad")
    shape = space.full if options.shape is None else Shape.read(options.shape)
    size = "x".join(map(str, input_shape))
    return _costs(f"{options.model} on {size}, {classes} classes", space, shape)


def _sizes(options: Cost) -> tuple[tuple[int, int, int], int]:
    if options.size is not None and options.num_classes is not None:
        return (3, options.size, options.size), options.num_classes
    info = data.info(options.data, options.data_dir)
    shape = info.input_shape if options.size is None else (3, options.size, options.size)
    return shape, info.num_classes if options.num_classes is None else options.num_classes


def _space(
    model: str, input_shape: tuple[int, int, int], classes: int, options: Cost, residual: Any
) -> Space:
    network = build_network(model, num_classes=classes, in_channels=input_shape[0])
    chosen = residual if options.residual == "auto" else options.residual
    return Space.trace(network, input_shape, residual=chosen)


def _costs(title: str, space: Space, shape: Shape) -> Costs:
    about = {
        "input_shape": space.input_shape,
        "residual": space.residual,
        "shape": shape.to_dict(),
        "fixed": space.fixed,
    }
    return Costs(title=title, rows=layer_costs(space, shape), about=about)
