"""The distributions over time: a row for each candidate size, a column for each epoch.

The page carries the numbers of all layers and stages; its script draws the one that is chosen,
just as `heat_map` draws the first one for readers without scripts.
"""

import math
from collections.abc import Sequence
from typing import Any

from .charts import ticks
from .facts import Choice, Facts
from .markup import element, escape, place

__all__ = ["heat_map", "map_data", "strength"]

WIDTH, LEFT, RIGHT, TOP = 440, 46, 330, 22
MOST_COLUMNS = 120
"""More epochs than this are thinned out: no screen would show them apart."""


def map_data(facts: Facts) -> dict[str, Any]:
    """What the script draws from: places as text, so that both drawings are the same.

    Probabilities are in thousandths.
    """
    columns = _columns(len(facts.epochs))
    epochs = [facts.epochs[i] for i in columns]
    step = (RIGHT - LEFT) / len(columns)
    return {
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "width": WIDTH,
        "epochs": epochs,
        "x": [place(LEFT + i * step) for i in range(len(columns))],
        "cell": place(step),
        "ticks": [[place(LEFT + (i + 0.5) * step), str(epochs[i])] for i in _tick_columns(epochs)],
        "maps": [_one(choice, columns) for choice in facts.choices],
    }


def _columns(epochs: int) -> list[int]:
    """The columns to draw, the first and the last among them.

    >>> _columns(3), len(_columns(600)), _columns(600)[-1]
    ([0, 1, 2], 120, 599)
    """
    if epochs <= MOST_COLUMNS:
        return list(range(epochs))
    return [round(i * (epochs - 1) / (MOST_COLUMNS - 1)) for i in range(MOST_COLUMNS)]


def _tick_columns(epochs: Sequence[int]) -> list[int]:
    """The columns nearest to round epochs."""
    if len(epochs) == 1:
        return [0]
    wanted = ticks(epochs[0], epochs[-1], 6, whole=True)
    near = [min(range(len(epochs)), key=lambda i: abs(epochs[i] - tick)) for tick in wanted]
    return sorted(set(near))


def _one(choice: Choice, columns: Sequence[int]) -> dict[str, Any]:
    # the largest size on top, as on an axis
    order = sorted(range(len(choice.sizes)), key=lambda i: -choice.sizes[i])
    row = max(13, min(26, 208 // len(order)))
    return {
        "name": choice.name,
        "unit": choice.unit,
        "row": row,
        "sizes": [choice.sizes[i] for i in order],
        "kept": next((at for at, i in enumerate(order) if choice.sizes[i] == choice.chosen), -1),
        "note": _note(choice),
        "chances": [[round(1000 * choice.chances[c][i]) for c in columns] for i in order],
    }


def _note(choice: Choice) -> str:
    if choice.chosen is None:
        return "No size of its own was kept: it follows another layer."
    kept = f"Kept: {choice.chosen} {choice.unit} out of {max(choice.sizes)}"
    end = ", but its block was dropped." if choice.dropped else "."
    return kept + end


def heat_map(data: dict[str, Any], index: int) -> str:
    """The inside of the figure for one layer or stage."""
    one = data["maps"][index]
    bottom = TOP + one["row"] * len(one["sizes"])
    parts = [
        element("title", {"id": "map-title"}, escape(f"{one['name']}: probability of each size")),
        element("desc", {"id": "map-text"}, escape(one["note"])),
        _text("tick", 0, TOP - 8, "start", one["unit"]),
        _text("tick", RIGHT + 8, TOP - 8, "start", "at the end"),
    ]
    for at, size in enumerate(one["sizes"]):
        y = TOP + at * one["row"]
        kept = at == one["kept"]
        middle = y + one["row"] // 2 + 4
        parts += [_cell(data, one, at, column) for column in range(len(data["x"]))]
        parts.append(_text("tick kept" if kept else "tick", LEFT - 8, middle, "end", str(size)))
        last = f"{one['chances'][at][-1] / 10:.1f}%{' kept' if kept else ''}"
        parts.append(_text("tick kept" if kept else "tick", RIGHT + 8, middle, "start", last))
    if one["kept"] >= 0:
        box = {"x": LEFT, "y": TOP + one["kept"] * one["row"], "width": RIGHT - LEFT}
        parts.append(element("rect", {"class": "kept", **box, "height": one["row"]}))
    parts += [_text("tick", x, bottom + 16, "middle", epoch) for x, epoch in data["ticks"]]
    parts.append(_text("tick", (LEFT + RIGHT) // 2, bottom + 34, "middle", "epoch"))
    return element(
        "svg",
        {
            "id": "map",
            "viewBox": f"0 0 {WIDTH} {bottom + 40}",
            "role": "img",
            "aria-labelledby": "map-title map-text",
        },
        *parts,
    )


def _cell(data: dict[str, Any], one: dict[str, Any], at: int, column: int) -> str:
    chance = one["chances"][at][column]
    words = f"epoch {data['epochs'][column]}, {one['sizes'][at]} {one['unit']}: {chance / 10:.1f}%"
    return element(
        "g",
        {},
        element("title", {}, escape(words)),
        element(
            "rect",
            {
                "class": "cell",
                "x": data["x"][column],
                "y": TOP + at * one["row"],
                "width": data["cell"],
                "height": one["row"],
                "fill-opacity": strength(chance),
            },
        ),
    )


def strength(chance: int) -> str:
    """How opaque a cell is: the root, so that small probabilities can be told from none.

    >>> strength(0), strength(250), strength(1000)
    ('0', '0.5', '1')
    """
    return f"{round(math.sqrt(1000 * chance)) / 1000:g}"


def _text(kind: str, x: int | str, y: int, anchor: str, words: str) -> str:
    return element("text", {"class": kind, "x": x, "y": y, "text-anchor": anchor}, escape(words))
