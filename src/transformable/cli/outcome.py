"""What every command returns: its result, which can be shown as a table."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..report.chance import chance_remark
from ..report.formatting import METRIC_NAMES, amount, duration

__all__ = ["Outcome", "parts_rows", "verdicts"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a command, which can be shown as a table."""

    title: str
    result: dict[str, Any]
    """What --json prints."""

    @classmethod
    def of(cls, options: Any, result: dict[str, Any], **more: Any) -> Self:
        """The outcome of a command that works on a network and a dataset."""
        return cls(title=f"{options.model} on {options.data}", result=result, **more)

    def show(self) -> RenderableType:
        """What a person sees."""
        shown = {name: value for name, value in self.result.items() if name != "num_classes"}
        classes = self.result.get("num_classes")
        if classes is not None and classes <= 5:
            shown.pop("top5", None)  # always 100 %
        remark = chance_remark(self.result.get("accuracy"), self.result.get("n", 0), classes)
        rows = ((name.replace("_", " "), _words(name, value)) for name, value in shown.items())
        return self.table(rows, *([remark] if remark else []))

    def table(self, rows: Iterable[tuple[str, str]], *lines: str) -> Group:
        """The title, a table of two columns, and lines below it."""
        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for row in rows:
            table.add_row(*row)
        return self.page(table, *lines)

    def page(self, table: Table, *lines: str) -> Group:
        """The title, a table, and lines below it."""
        # the title is above the table, not in it, where it would be broken at the table's width
        return Group(self.title, table, *(Text(line) for line in lines))


def _words(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("accuracy", "top5", "validation_accuracy"):
        return f"{value:.2%}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and name != "seed" else str(value)


def parts_rows(seconds: Mapping[str, float]) -> list[tuple[str, str]]:
    """A row for each part of the work, in the dry run of a command."""
    return [(name, f"about {duration(each)}") for name, each in seconds.items() if each]


def verdicts(
    target: Mapping[str, Any], costs: Mapping[str, float]
) -> Iterator[tuple[str, str, str]]:
    """Each promise that is kept by measuring or beside the budget, its metric, and whether it is
    met.

    >>> limit = {"metric": "macs", "at_most": {"latency": 3.0}}
    >>> list(verdicts(limit, {"macs": 100, "latency": 3.1}))
    [('limit of at most 3.00 ms', 'latency', 'missed')]
    """
    if target["metric"] == "latency":
        held = target["low"] <= costs["latency"] <= target["high"]
        yield "latency budget", "latency", "met" if held else "missed"
    for metric, high in target.get("at_most", {}).items():
        name = "" if metric == "latency" else f" {METRIC_NAMES[metric]}"
        verdict = "met" if costs[metric] <= high else "missed"
        yield f"limit of at most {amount(metric, high)}{name}", metric, verdict
