"""Points with error bars as SVG: a colour for each method, a marker for each transfer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .charts import Axis, tick_words, ticks
from .labels import Box, Label, bar, box, labels
from .markup import element, escape, place, svg

__all__ = ["MARKERS", "Key", "Point", "Reference", "scatter"]

WIDTH, HEIGHT = 800, 430
LEFT, RIGHT, TOP, BOTTOM = 56, 790, 12, 382
# a circle, a square, a triangle and a diamond around 0, 0
MARKERS = (
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.4 5.2 3.9h-10.4z",
    "M0-5.6 5.6 0 0 5.6-5.6 0z",
)
# the least part of the picture that the points may be pushed into to show one far from them
LEAST = 0.5


@dataclass(frozen=True, kw_only=True)
class Point:
    """One mean, with its spread."""

    label: str
    words: str
    """What is told of it where it is pointed at."""
    colour: int
    marker: int
    x: float
    y: float
    std: float | None

    @property
    def ends(self) -> tuple[float, float]:
        return self.y - (self.std or 0.0), self.y + (self.std or 0.0)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What the points are held against."""

    label: str
    x: float | None
    y: float


@dataclass(frozen=True)
class Key:
    """A line of the legend: a colour for a method, or a marker for a transfer."""

    label: str
    colour: int | None
    marker: int


def scatter(
    key: str,
    title: str,
    description: str,
    axis: tuple[str, Literal["count", "plain"]],
    points: Sequence[Point],
    reference: Reference | None,
    bands: Sequence[tuple[float, float]],
    keys: Sequence[Key],
) -> str:
    """A figure; the points of one colour and marker are joined in the order given."""
    name = element("strong", {}, escape(title))
    if not points:
        note = element("p", {"class": "note"}, "No run has a number for this yet.")
        return element("figure", {"id": key}, element("figcaption", {}, name), note)
    across, up = _scales(points, reference, bands)
    picture = svg(
        key,
        title,
        description,
        (WIDTH, HEIGHT),
        *(_band(low, high, across) for low, high in bands),
        _axes(across, up, *axis),
        _reference(reference, across, up) if reference else "",
        *(_trace(line, across, up) for line in _lines(points) if len(line) > 1),
        *(_point(point, across, up) for point in reversed(points)),
        *_names(points, reference, across, up),
    )
    caption = element("figcaption", {}, name, *_legend(points, reference, bands, keys))
    # it scrolls, by keyboard too, where the screen is narrow
    region = {"class": "scroll", "role": "region", "aria-label": title, "tabindex": "0"}
    note = element("p", {"class": "note"}, escape(description))
    figure = {"id": key, "class": "scatter"}
    return element("figure", figure, caption, element("div", region, picture), note)


def _legend(
    points: Sequence[Point],
    reference: Reference | None,
    bands: Sequence[tuple[float, float]],
    keys: Sequence[Key],
) -> list[str]:
    drawn = {point.label for point in points}
    parts = [_key(key) for key in keys if key.colour is None or key.label in drawn]
    if reference:
        parts.append(element("span", {"class": "key other"}, escape(reference.label)))
    if bands:
        parts.append(element("span", {"class": "key band"}, "budget"))
    return parts


def _key(key: Key) -> str:
    colour = "" if key.colour is None else f" m{key.colour}"
    marker = element("path", {"d": MARKERS[key.marker], "transform": "translate(6 6)"})
    picture = element("svg", {"viewBox": "0 0 12 12", "aria-hidden": "true"}, marker)
    return element("span", {"class": f"mark{colour}"}, picture, escape(key.label))


def _scales(
    points: Sequence[Point], reference: Reference | None, bands: Sequence[tuple[float, float]]
) -> tuple[Axis, Axis]:
    xs = [point.x for point in points] + [end for band in bands for end in band]
    if reference and reference.x is not None:
        wider = [*xs, reference.x]
        if max(xs) - min(xs) >= LEAST * (max(wider) - min(wider)):
            xs = wider
    ys = [end for point in points for end in point.ends]
    ys += [reference.y] if reference else []
    return Axis.around(xs, LEFT, RIGHT), Axis.around(ys, BOTTOM, TOP)


def _band(low: float, high: float, across: Axis) -> str:
    left, right = across.at(low), across.at(high)
    size = {"x": left, "y": TOP, "width": right - left, "height": BOTTOM - TOP}
    return element("rect", {"class": "band", **size})


def _axes(across: Axis, up: Axis, name: str, unit: Literal["count", "plain"]) -> str:
    parts = []
    values = ticks(up.low, up.high)
    for value, words in zip(values, tick_words(values, "percent"), strict=True):
        y = up.at(value)
        parts.append(element("line", {"class": "grid", "x1": LEFT, "x2": RIGHT, "y1": y, "y2": y}))
        spot = {"class": "tick", "x": LEFT - 7, "y": y + 4, "text-anchor": "end"}
        parts.append(element("text", spot, words))
    values = ticks(across.low, across.high, 8)
    for value, words in zip(values, tick_words(values, unit), strict=True):
        x = across.at(value)
        mark = {"class": "axis", "x1": x, "x2": x, "y1": BOTTOM, "y2": BOTTOM + 4}
        parts.append(element("line", mark))
        spot = {"class": "tick", "x": x, "y": BOTTOM + 18, "text-anchor": "middle"}
        parts.append(element("text", spot, words))
    floor = {"class": "axis", "x1": LEFT, "x2": RIGHT, "y1": BOTTOM, "y2": BOTTOM}
    parts.append(element("line", floor))
    spot = {"class": "tick", "x": (LEFT + RIGHT) / 2, "y": HEIGHT - 8, "text-anchor": "middle"}
    parts.append(element("text", spot, escape(name)))
    return "".join(parts)


def _reference(reference: Reference, across: Axis, up: Axis) -> str:
    """A line at its height, and a cross on it where it is in the picture."""
    y = up.at(reference.y)
    line = element(
        "polyline", {"class": "line other", "points": f"{LEFT},{place(y)} {RIGHT},{place(y)}"}
    )
    if not _shown(reference, across):
        return line
    spot = f"translate({place(across.at(reference.x or 0.0))} {place(y)})"
    return line + element("path", {"class": "cross", "d": "M-5-5 5 5M-5 5 5-5", "transform": spot})


def _shown(reference: Reference, across: Axis) -> bool:
    return reference.x is not None and across.low <= reference.x <= across.high


def _lines(points: Sequence[Point]) -> list[list[Point]]:
    found: dict[tuple[str, int], list[Point]] = {}
    for point in points:
        found.setdefault((point.label, point.marker), []).append(point)
    return list(found.values())


def _trace(line: Sequence[Point], across: Axis, up: Axis) -> str:
    path = " ".join(f"{place(across.at(p.x))},{place(up.at(p.y))}" for p in line)
    return element("polyline", {"class": f"trace m{line[0].colour}", "points": path})


def _point(point: Point, across: Axis, up: Axis) -> str:
    x, y = across.at(point.x), up.at(point.y)
    parts = [element("title", {}, escape(point.words))]
    if point.std is not None:
        bottom, top = map(up.at, point.ends)
        parts.append(
            element("line", {"class": "spread", "x1": x, "x2": x, "y1": top, "y2": bottom})
        )
    spot = f"translate({place(x)} {place(y)})"
    parts.append(element("path", {"d": MARKERS[point.marker], "transform": spot}))
    return element("g", {"class": f"point m{point.colour}"}, *parts)


def _names(
    points: Sequence[Point], reference: Reference | None, across: Axis, up: Axis
) -> list[str]:
    """The names of the methods next to their points, of a line next to its last one."""
    spots = [(across.at(point.x), up.at(point.y)) for point in points]
    taken: list[Box] = [box(x, y) for x, y in spots]
    taken += [bar(across.at(p.x), *map(up.at, p.ends)) for p in points]
    if reference:
        y = up.at(reference.y)
        taken.append((LEFT, y - 2, RIGHT, y + 2))
        if _shown(reference, across):
            taken.append(box(across.at(reference.x or 0.0), y))
    last = {id(line[-1]) for line in _lines(points)}
    wanted = [(point, spot) for point, spot in zip(points, spots, strict=True) if id(point) in last]
    found = labels(
        [(point.label, *spot) for point, spot in wanted], taken, (LEFT, TOP, RIGHT, BOTTOM)
    )
    return [_name(one, point) for one, (point, _) in zip(found, wanted, strict=True) if one]


def _name(label: Label, point: Point) -> str:
    spot = {"class": "name", "x": label.x, "y": label.y, "text-anchor": "start"}
    text = element("text", spot, escape(point.label))
    if label.leader is None:
        return text
    x1, y1, x2, y2 = label.leader
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return element("line", {"class": f"leader m{point.colour}", **ends}) + text
