"""Line charts as SVG: axes, ticks, a legend, and a shaded band where there is one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .facts import Rows
from .markup import element, escape, place, svg
from .wording import count, percent, significant

__all__ = ["Axis", "Band", "Series", "line_chart", "points_of", "tick_words", "ticks"]

WIDTH, HEIGHT = 380, 232
LEFT, RIGHT, TOP, BOTTOM = 50, 370, 10, 190

Unit = Literal["count", "percent", "plain"]


@dataclass(frozen=True)
class Series:
    """One line: its name, its points, and whether it is the one that matters most."""

    label: str
    points: Sequence[tuple[float, float]]
    main: bool


@dataclass(frozen=True)
class Band:
    """Where a line is meant to end."""

    label: str
    low: float
    high: float


@dataclass(frozen=True)
class Axis:
    """From values to places on the picture.

    >>> Axis(low=0, high=10, start=50, end=370).at(5)
    210.0
    """

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    @classmethod
    def around(cls, values: Sequence[float], start: float, end: float) -> "Axis":
        """One that leaves a little room on both sides, and some around a single value."""
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        # what is never negative has no axis below 0
        return cls(max(0.0, low - room) if low >= 0 else low - room, high + room, start, end)


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Round values from low to high.

    >>> ticks(0.13, 0.97), ticks(1, 30, whole=True), ticks(0.5, 1.5, whole=True)
    ([0.2, 0.4, 0.6, 0.8], [5, 10, 15, 20, 25, 30], [1])
    """
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * by for by in (1, 2, 5, 10) if (high - low) / (size * by) <= most)
    if whole:
        step = max(1, round(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # of a whole number of steps, so that errors do not add up
    return [round(i * step, 10) for i in range(first, last + 1)]


def points_of(rows: Rows, name: str) -> list[tuple[float, float]]:
    """One column over the epochs, without the cells that are empty."""
    pairs = [(row.get("epoch"), row.get(name)) for row in rows]
    return [(epoch, value) for epoch, value in pairs if epoch is not None and value is not None]


def line_chart(
    key: str,
    title: str,
    description: str,
    series: Sequence[Series],
    unit: Unit,
    band: Band | None = None,
) -> str:
    """A figure; without any points, one that says so."""
    drawn = [line for line in series if line.points]
    caption = element(
        "figcaption",
        {},
        element("strong", {}, escape(title)),
        *(_legend(line, unit) for line in drawn),
        element("span", {"class": "key band"}, escape(band.label)) if band else "",
    )
    if not drawn:
        return element("figure", {}, caption, element("p", {"class": "note"}, escape(description)))
    epochs = [x for line in drawn for x, _ in line.points]
    across = Axis(min(epochs), max(epochs), LEFT, RIGHT)
    if across.low == across.high:
        across = Axis(across.low - 0.5, across.high + 0.5, LEFT, RIGHT)
    heights = [y for line in drawn for _, y in line.points]
    up = Axis.around([*heights, *((band.low, band.high) if band else ())], BOTTOM, TOP)
    picture = svg(
        key,
        title,
        description,
        (WIDTH, HEIGHT),
        _band(band, up) if band else "",
        _axes(across, up, unit),
        *(_line(line, across, up) for line in sorted(drawn, key=lambda line: line.main)),
    )
    note = element("p", {"class": "note"}, escape(description))
    return element("figure", {"id": key}, caption, picture, note)


def _legend(line: Series, unit: Unit) -> str:
    """The name of a line, and where it ended."""
    words = {"count": count, "percent": percent, "plain": significant}[unit]
    last = element("b", {}, escape(words(line.points[-1][1])))
    kind = "key main" if line.main else "key other"
    return element("span", {"class": kind}, escape(line.label), " ", last)


def _band(band: Band, up: Axis) -> str:
    top, bottom = up.at(band.high), up.at(band.low)
    box = {"x": LEFT, "y": top, "width": RIGHT - LEFT, "height": bottom - top}
    return element("rect", {"class": "band", **box})


def _axes(across: Axis, up: Axis, unit: Unit) -> str:
    parts = []
    values = ticks(up.low, up.high)
    for value, words in zip(values, tick_words(values, unit), strict=True):
        y = up.at(value)
        parts.append(element("line", {"class": "grid", "x1": LEFT, "x2": RIGHT, "y1": y, "y2": y}))
        spot = {"class": "tick", "x": LEFT - 7, "y": y + 4, "text-anchor": "end"}
        parts.append(element("text", spot, words))
    for epoch in ticks(across.low, across.high, whole=True):
        x = across.at(epoch)
        mark = {"class": "axis", "x1": x, "x2": x, "y1": BOTTOM, "y2": BOTTOM + 4}
        parts.append(element("line", mark))
        spot = {"class": "tick", "x": x, "y": BOTTOM + 18, "text-anchor": "middle"}
        parts.append(element("text", spot, f"{epoch:.0f}"))
    floor = {"class": "axis", "x1": LEFT, "x2": RIGHT, "y1": BOTTOM, "y2": BOTTOM}
    parts.append(element("line", floor))
    spot = {"class": "tick", "x": (LEFT + RIGHT) / 2, "y": HEIGHT - 6, "text-anchor": "middle"}
    parts.append(element("text", spot, "epoch"))
    return "".join(parts)


def tick_words(values: Sequence[float], unit: Unit) -> list[str]:
    """
    >>> tick_words([4.5e6, 5e6], "count"), tick_words([0.9, 1.0], "percent")
    (['4.5M', '5.0M'], ['90%', '100%'])
    """
    if not values:
        return []
    scale, suffix = 1.0, ""
    if unit == "percent":
        scale, suffix = 100.0, "%"
    elif unit == "count":
        top = max(abs(value) for value in values)
        sizes = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
        size, suffix = next((pair for pair in sizes if top >= pair[0]), (1.0, ""))
        scale = 1 / size
    step = (values[1] - values[0] if len(values) > 1 else abs(values[0]) or 1.0) * scale
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [f"{value * scale:.{decimals}f}{suffix}" for value in values]


def _line(line: Series, across: Axis, up: Axis) -> str:
    kind = "main" if line.main else "other"
    spots = [(across.at(x), up.at(y)) for x, y in line.points]
    path = " ".join(f"{place(x)},{place(y)}" for x, y in spots)
    # the last point is marked: it is what counts, and all there is of a single epoch
    x, y = spots[-1]
    return element("polyline", {"class": f"line {kind}", "points": path}) + element(
        "circle", {"class": f"dot {kind}", "cx": x, "cy": y, "r": 3}
    )
