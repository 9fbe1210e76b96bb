"""The axes of a plot: from values to places, and round values with their labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Axis", "Box", "Unit", "round_values"]

Unit = Literal["count", "percent", "plain"]
Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


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

    def ticks(self, unit: Unit, most: int = 6, *, whole: bool = False) -> list[tuple[float, str]]:
        """The places and the labels of round values."""
        values = round_values(self.low, self.high, most, whole=whole)
        return list(zip(map(self.at, values), _labels(values, unit), strict=True))

    @classmethod
    def around(
        cls, values: Sequence[float], start: float, end: float, *, most: float = math.inf
    ) -> "Axis":
        """One with a little room on both sides, and some around a single value.

        It ends at ``most``, beyond which there are no values.

        >>> Axis.around([0.93], 0, 1, most=1.0).high
        1.0
        """
        low, high = min(values), max(values)
        room = 0.05 * (high - low) or 0.5 * abs(high) or 0.5
        # what is never negative has no axis below 0
        first = max(0.0, low - room) if low >= 0 else low - room
        return cls(first, max(high, min(high + room, most)), start, end)


def round_values(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Round values from low to high, evenly spaced.

    >>> round_values(0.13, 0.97), round_values(1, 30, whole=True)
    ([0.2, 0.4, 0.6, 0.8], [5, 10, 15, 20, 25, 30])
    >>> round_values(0.5, 1.5, whole=True)
    [1]
    """
    size = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(size * by for by in (1, 2, 5, 10) if (high - low) / (size * by) <= most)
    if whole:
        step = max(1, round(step))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # multiples, so that rounding errors do not add up
    return [round(i * step, 10) for i in range(first, last + 1)]


def _labels(values: Sequence[float], unit: Unit) -> list[str]:
    """
    >>> _labels([4.5e6, 5e6], "count"), _labels([0.9, 1.0], "percent")
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
