"""The table of a comparison on the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from ..report.comparison_results import (
    Entry,
    Row,
    accuracy_text,
    average,
    group_seeds,
    outside_band,
    unpruned,
)
from ..report.comparison_table import OUTSIDE, UNPRUNED, shorten
from ..report.formatting import MISSING, count_and_share, passes, percent
from ..spelling import join_words

__all__ = ["COMPARISON_FILES", "results_table", "unequal_passes"]

COMPARISON_FILES = {"report": "report.html", "table": "results.md", "runs": "results.csv"}


def results_table(
    rows: Sequence[Row],
    teacher: Mapping[str, Any] | None,
    targets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Table:
    """Means over the seeds, in the order of the runs, so that no line jumps while they run.

    With the ``targets`` of the budgets, methods that are outside the band are marked.
    """
    groups = group_seeds(rows)
    entries = [average(group) for group in groups]
    names = [name for name in ("budget", "transfer") if len({entry[name] for entry in entries}) > 1]
    table = Table(
        box=SIMPLE, pad_edge=False, show_edge=False, collapse_padding=True, caption_justify="left"
    )
    for name in ("method", *names):
        table.add_column(name, no_wrap=True)
    table.add_column("runs", overflow="fold", min_width=8)
    table.add_column("accuracy", justify="right", no_wrap=True)
    for name in ("MACs", "passes", "seconds"):
        table.add_column(name, justify="right")
    if teacher:
        whole = unpruned(teacher)
        numbers = _numbers(percent(whole["accuracy"]), whole["macs"], None, whole["seconds"])
        table.add_row(UNPRUNED, *[MISSING] * len(names), "", *numbers)
    for entry, group in zip(entries, groups, strict=True):
        # how many runs are done is in the column before
        reached = accuracy_text(entry).partition(" (")[0]
        if outside_band(entry, targets or {}):
            reached += f" {OUTSIDE}"
            table.caption = f"{OUTSIDE} outside the band of its budget: compared at another cost"
        times = [entry[name] for name in ("search_seconds", "train_seconds")]
        seconds = None if None in times else sum(times)
        numbers = _numbers(reached, entry["macs"], entry["passes"], seconds)
        texts = (Text(str(entry[name])) for name in ("method", *names))
        table.add_row(*texts, _state(entry, group), *numbers)
    return table


def unequal_passes(rows: Sequence[Row], promised: float | None) -> list[str]:
    """A line about the methods that took more or fewer passes than they were given, if any.

    A small network is trained for whole epochs, so half a pass is no difference.
    """
    if promised is None:
        return []
    entries = [average(group) for group in group_seeds(rows)]
    taken = {entry["method"]: entry["passes"] for entry in entries if entry["passes"] is not None}
    others = [
        f"{method} took {passes(spent)}"
        for method, spent in taken.items()
        if abs(spent - promised) > 0.5
    ]
    if not others:
        return []
    each = f"each method was given {passes(promised)}"
    return [f"passes are not equal: {each}, and {join_words(others)}"]


def _numbers(
    accuracy: str, macs: float | None, spent: float | None, seconds: float | None
) -> list[str]:
    time = MISSING if seconds is None else f"{seconds:,.0f}"
    return [accuracy, count_and_share(macs), passes(spent), time]


def _state(entry: Entry, group: Sequence[Row]) -> Text:
    """How many runs of a line are done, running or failed, and why or at what."""
    parts = []
    if entry["n"]:
        parts.append(f"{entry['n']}/{len(group)} done")
    if entry["running"]:
        doing = [row["reason"] for row in group if row["state"] == "running" and row["reason"]]
        parts.append(f"running: {shorten(doing[0])}" if doing else "running")
    elif entry["waiting"] and not parts:
        parts.append("waiting")
    if entry["failed"]:
        times = f"{entry['failed']} failed" if parts else "failed"
        parts.append(f"{times}: {shorten('; '.join(entry['reasons']))}")
    style = "red" if entry["failed"] else "dim" if entry["waiting"] == len(group) else ""
    return Text(", ".join(parts), style=style)
