"""Accuracy against a cost, with error bars, for the template to draw.

Each method has a colour, each transfer a marker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .axes import Axis, Box
from .label_placement import Label, marker_box, place_labels

__all__ = ["COLOURS", "MARKERS", "Point", "Reference", "ScatterPlot"]

FRAME: Box = (56, 12, 790, 382)
COLOURS = 16
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


@dataclass(frozen=True)
class Reference:
    """The unpruned network, with which the points are compared."""

    label: str
    x: float | None
    y: float


@dataclass(frozen=True)
class ScatterPlot:
    """The points of one colour and marker are joined in the order given, if that shows something:
    two points without a spread make no line."""

    points: Sequence[Point]
    reference: Reference | None
    bands: Sequence[tuple[float, float]] = ()
    frame: Box = FRAME

    @property
    def lines(self) -> list[list[Point]]:
        """The points of each colour and marker."""
        found: dict[tuple[str, str], list[Point]] = {}
        for point in self.points:
            found.setdefault((point.label, point.marker), []).append(point)
        return list(found.values())

    @property
    def traces(self) -> list[list[Point]]:
        """The lines that are drawn."""
        return [
            line
            for line in self.lines
            if len(line) > 2 or (len(line) == 2 and all(p.std is not None for p in line))
        ]

    @cached_property
    def x_axis(self) -> Axis:
        xs = [point.x for point in self.points] + [end for band in self.bands for end in band]
        if self.reference and self.reference.x is not None:
            wider = [*xs, self.reference.x]
            if max(xs) - min(xs) >= MIN_SHARE * (max(wider) - min(wider)):
                xs = wider
        return Axis.around(xs, FRAME[0], FRAME[2])

    @cached_property
    def y_axis(self) -> Axis:
        ys = [end for point in self.points for end in point.ends]
        ys += [self.reference.y] if self.reference else []
        return Axis.around(ys, FRAME[3], FRAME[1], most=1.0)

    @property
    def reference_place(self) -> float | None:
        """Where the reference is along the x axis; None if it is outside of the picture."""
        x, axis = self.reference.x if self.reference else None, self.x_axis
        return None if x is None or not axis.low <= x <= axis.high else axis.at(x)

    @property
    def names(self) -> list[tuple[Point, Label]]:
        """The places of the names: next to each point, or to the last one of a line."""
        places = {id(p): (self.x_axis.at(p.x), self.y_axis.at(p.y)) for p in self.points}
        taken = [marker_box(*place) for place in places.values()]
        for point in self.points:
            x, (bottom, top) = places[id(point)][0], map(self.y_axis.at, point.ends)
            taken.append((x - 1, top, x + 1, bottom))
        if self.reference:
            place, y = self.reference_place, self.y_axis.at(self.reference.y)
            taken.append((FRAME[0], y - 2, FRAME[2], y + 2))
            taken += [] if place is None else [marker_box(place, y)]
        joined = {id(point) for line in self.traces for point in line}
        ends = {id(line[-1]) for line in self.traces} | (set(places) - joined)
        named = [point for point in self.points if id(point) in ends]
        labels = place_labels([(p.label, *places[id(p)]) for p in named], taken, FRAME)
        return [(point, label) for point, label in zip(named, labels, strict=True) if label]
