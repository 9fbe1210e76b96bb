"""What the template needs to draw numbers over the epochs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .axes import Axis, Box, Unit
from .run_facts import MetricRows

__all__ = ["FRAME", "column", "line_axes"]

FRAME: Box = (50, 10, 370, 190)


def column(rows: MetricRows, name: str) -> list[tuple[float, float]]:
    """One column of the metrics over the epochs, without empty cells."""
    pairs = [(row.get("epoch"), row.get(name)) for row in rows]
    return [(epoch, value) for epoch, value in pairs if epoch is not None and value is not None]


def line_axes(
    lines: Sequence[Mapping[str, Any]], band: tuple[float, float] | None, unit: Unit
) -> tuple[Axis, Axis]:
    """The axes for the ``points`` of all lines, and for a band that they should reach."""
    left, top, right, bottom = FRAME
    epochs = [epoch for line in lines for epoch, _ in line["points"]]
    values = [value for line in lines for _, value in line["points"]]
    across = Axis(min(epochs), max(epochs), left, right)
    most = 1.0 if unit == "percent" else math.inf
    return across, Axis.around([*values, *(band or ())], bottom, top, most=most)
