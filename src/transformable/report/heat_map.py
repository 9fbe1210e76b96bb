"""The distributions over time: a row for each candidate size, a column for each epoch.

The template draws the map of the first layer; the script puts the numbers of another one into it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .axes import round_values
from .formatting import coordinate
from .run_facts import RunFacts

__all__ = ["heat_maps", "opacity"]

WIDTH, LEFT, RIGHT, TOP, ROW = 440, 46, 330, 22, 26
MAX_COLUMNS = 120
"""More epochs than this are thinned out: no screen would show them apart."""


def heat_maps(facts: RunFacts) -> dict[str, Any]:
    """The numbers of all maps, as they are in the page; probabilities are in thousandths."""
    columns = [facts.distributions[i] for i in _columns(len(facts.distributions))]
    epochs = [row["epoch"] for row in columns]
    cell = (RIGHT - LEFT) / len(columns)
    return {
        "width": WIDTH,
        "left": LEFT,
        "right": RIGHT,
        "top": TOP,
        "row": ROW,
        "cell": coordinate(cell),
        "epochs": epochs,
        "x": [coordinate(LEFT + i * cell) for i in range(len(columns))],
        "ticks": [[coordinate(LEFT + (i + 0.5) * cell), epochs[i]] for i in _tick_columns(epochs)],
        "maps": [_heat_map(facts, name, columns) for name in facts.candidates],
    }


def _columns(epochs: int) -> list[int]:
    """The columns to draw, the first and the last among them."""
    if epochs <= MAX_COLUMNS:
        return list(range(epochs))
    return [round(i * (epochs - 1) / (MAX_COLUMNS - 1)) for i in range(MAX_COLUMNS)]


def _tick_columns(epochs: Sequence[int]) -> list[int]:
    """The columns nearest to round epochs."""
    if len(epochs) == 1:
        return [0]
    wanted = round_values(epochs[0], epochs[-1], whole=True)
    near = [min(range(len(epochs)), key=lambda i: abs(epochs[i] - tick)) for tick in wanted]
    return sorted(set(near))


def _heat_map(facts: RunFacts, name: str, columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    candidates, depths = facts.candidates[name], facts.shape["depths"]
    # the largest size on top, as on an axis
    order = sorted(range(len(candidates)), key=lambda i: -candidates[i])
    sizes = [candidates[i] for i in order]
    unit, chosen = "channels", facts.shape["widths"].get(name)
    if name in depths:
        unit, chosen = "blocks", depths[name]
    note = f"Kept: {chosen} {unit} out of {sizes[0]}"
    if chosen is None:
        note = "No size of its own was kept: it follows another layer."
    elif any(layer.name == name and layer.dropped for layer in facts.layers):
        note += ", but its block was dropped."
    else:
        note += "."
    return {
        "name": name,
        "unit": unit,
        "sizes": sizes,
        "kept": sizes.index(chosen) if chosen in sizes else -1,
        "note": note,
        "probabilities": [[round(1000 * row[name][i]) for row in columns] for i in order],
    }


def opacity(thousandths: int) -> str:
    """The opacity of a cell: the square root, so that small probabilities differ from zero.

    >>> opacity(0), opacity(250), opacity(1000)
    ('0', '0.5', '1')
    """
    return f"{round(math.sqrt(1000 * thousandths)) / 1000:g}"
