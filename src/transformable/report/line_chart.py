"""Charts of numbers over the epochs, for the template to draw."""

from collections.abc import Sequence
from dataclasses import dataclass

from .axes import Axis, Box, Plot, Unit, plot_in
from .formatting import count, percent, significant
from .run_facts import MetricRows

__all__ = ["Line", "LineChart", "column"]

FRAME: Box = (50, 10, 370, 190)


@dataclass(frozen=True)
class Line:
    """One line; the main line of a chart is the more important one."""

    label: str
    points: Sequence[tuple[float, float]]
    main: bool = True


@dataclass(frozen=True, kw_only=True)
class LineChart:
    """A chart, maybe with a band where the lines should end."""

    key: str
    title: str
    description: str
    lines: Sequence[Line]
    unit: Unit
    band: tuple[float, float] | None = None

    @property
    def drawn(self) -> list[Line]:
        """The lines that have points."""
        return [line for line in self.lines if line.points]

    def last_value(self, line: Line) -> str:
        formats = {"count": count, "percent": percent, "plain": significant}
        return formats[self.unit](line.points[-1][1])

    def plot(self) -> Plot:
        left, top, right, bottom = FRAME
        epochs = [epoch for line in self.drawn for epoch, _ in line.points]
        low, high = min(epochs), max(epochs)
        # a single epoch stands in the middle
        room = 0.5 if low == high else 0.0
        values = [value for line in self.drawn for _, value in line.points]
        x = Axis(low - room, high + room, left, right)
        y = Axis.around([*values, *(self.band or ())], bottom, top)
        return plot_in(FRAME, x, y, "epoch", "plain", self.unit)


def column(rows: MetricRows, name: str) -> list[tuple[float, float]]:
    """One column of the metrics over the epochs, without empty cells."""
    pairs = [(row.get("epoch"), row.get(name)) for row in rows]
    return [(epoch, value) for epoch, value in pairs if epoch is not None and value is not None]
