"""Scatter plots with error bars, for the template to draw.

Each method has a colour, each transfer a marker.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from .axes import Axis, Box, Plot, Unit, plot_in
from .label_placement import Label, error_bar_box, marker_box, place_labels

__all__ = ["COLOURS", "MARKERS", "LegendEntry", "Point", "Reference", "ScatterPlot"]

FRAME: Box = (56, 12, 790, 382)
COLOURS = 14
"""The classes m0, m1, ... of style.css."""
# a circle, a square, a triangle and a diamond around 0, 0
MARKERS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.4 5.2 3.9h-10.4z",
    "M0-5.6 5.6 0 0 5.6-5.6 0z",
)
# the points keep at least this part of the width when the reference is far from them
MIN_SHARE = 0.5


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mean, with its spread."""

    label: str
    tooltip: str
    colour: int
    marker: str
    x: float
    y: float
    std: float | None

    @property
    def ends(self) -> tuple[float, float]:
        return self.y - (self.std or 0.0), self.y + (self.std or 0.0)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The unpruned network, with which the points are compared."""

    label: str
    x: float | None
    y: float


@dataclass(frozen=True)
class LegendEntry:
    """The colour of a method, or the marker of a transfer (no colour)."""

    label: str
    colour: int | None
    marker: str


@dataclass(frozen=True, kw_only=True)
class ScatterPlot:
    """Accuracy against a cost; the points of one colour and marker are joined as given."""

    key: str
    title: str
    description: str
    x_name: str
    x_unit: Unit
    points: Sequence[Point]
    reference: Reference | None
    bands: Sequence[tuple[float, float]]
    all_legend: Sequence[LegendEntry]

    @property
    def legend(self) -> list[LegendEntry]:
        """The entries of what is drawn."""
        drawn = {point.label for point in self.points}
        return [one for one in self.all_legend if one.colour is None or one.label in drawn]

    @property
    def lines(self) -> list[list[Point]]:
        """The points of each colour and marker."""
        found: dict[tuple[str, str], list[Point]] = {}
        for point in self.points:
            found.setdefault((point.label, point.marker), []).append(point)
        return list(found.values())

    def plot(self) -> Plot:
        left, top, right, bottom = FRAME
        xs = [point.x for point in self.points] + [end for band in self.bands for end in band]
        ys = [end for point in self.points for end in point.ends]
        if self.reference:
            ys.append(self.reference.y)
            if self.reference.x is not None:
                wider = [*xs, self.reference.x]
                if max(xs) - min(xs) >= MIN_SHARE * (max(wider) - min(wider)):
                    xs = wider
        x, y = Axis.around(xs, left, right), Axis.around(ys, bottom, top)
        return plot_in(FRAME, x, y, self.x_name, self.x_unit, "percent")

    def reference_x(self, plot: Plot) -> float | None:
        """The place of the reference, unless it is outside of the picture."""
        x = self.reference.x if self.reference else None
        return None if x is None or not plot.x.low <= x <= plot.x.high else plot.x.at(x)

    def names(self, plot: Plot) -> list[tuple[Point, Label]]:
        """The places of the names: next to each point, or to the last one of a line."""
        left, _, right, _ = FRAME
        places = {id(p): (plot.x.at(p.x), plot.y.at(p.y)) for p in self.points}
        taken = [marker_box(*place) for place in places.values()]
        taken += [error_bar_box(plot.x.at(p.x), *map(plot.y.at, p.ends)) for p in self.points]
        if self.reference:
            x, y = self.reference_x(plot), plot.y.at(self.reference.y)
            taken.append((left, y - 2, right, y + 2))
            taken += [] if x is None else [marker_box(x, y)]
        ends = {id(line[-1]) for line in self.lines}
        named = [point for point in self.points if id(point) in ends]
        labels = place_labels([(p.label, *places[id(p)]) for p in named], taken, FRAME)
        return [(point, label) for point, label in zip(named, labels, strict=True) if label]
