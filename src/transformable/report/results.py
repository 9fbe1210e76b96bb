"""The runs of a comparison or a sweep as results.csv, as means, as Markdown and on a terminal."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from .findings import (
    UNPRUNED,
    Entry,
    accuracy,
    columns,
    failures,
    footnotes,
    machine,
    runs_of,
    short,
    size_of,
    table_cells,
    teacher_of,
    unpruned_cells,
)
from .markup import code, plain
from .verdict import verdict
from .wording import NOTHING, percent

__all__ = ["Row", "csv_text", "live_table", "markdown", "summary"]

Row = Mapping[str, Any]
"""One run: what was run, its state, and, once it is done, its numbers."""

COLUMNS = (
    "method",
    "budget",
    "seed",
    "transfer",
    "state",
    "reason",
    "accuracy",
    "top5",
    "macs",
    "params",
    "cost",
    "measured",
    "latency_ms",
    "search_seconds",
    "train_seconds",
)
AVERAGED = ("cost", "macs", "params", "latency_ms", "search_seconds", "train_seconds")
SUFFIXES = {"": 1.0, "%": 0.01, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}


def csv_text(rows: Sequence[Row]) -> str:
    """A line for each run, failed ones and those to come included; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        reason = re.sub(r"\s+", " ", row["reason"] or "")
        writer.writerow({**row, "reason": reason})
    return text.getvalue()


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over the seeds, one for each method, budget and transfer.

    By budget, then the best first; those that are not done yet follow, and those of which every run
    failed come last. ``accuracy_std`` is that of a sample, so None for a single run.
    """
    entries = [_entry(group) for group in _groups(rows)]
    return sorted(entries, key=lambda e: (_size(e["budget"]), e["budget"], *_rank(e)))


def _groups(rows: Sequence[Row]) -> list[list[Row]]:
    """The seeds of the same, in the order in which the first of them come."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["budget"], row["transfer"]), []).append(row)
    return list(groups.values())


def _entry(group: Sequence[Row]) -> dict[str, Any]:
    done = [row for row in group if row["state"] == "done"]
    failed = [row for row in group if row["state"] == "failed"]
    accuracies = _known(done, "accuracy")
    costs = _known(done, "cost")
    first = group[0]
    return {
        "method": first["method"],
        "budget": first["budget"],
        "transfer": first["transfer"],
        "n": len(done),
        "failed": len(failed),
        "running": sum(row["state"] == "running" for row in group),
        "waiting": sum(row["state"] == "waiting" for row in group),
        "reasons": list(dict.fromkeys(row["reason"] or "no reason given" for row in failed)),
        "accuracy": fmean(accuracies) if accuracies else None,
        "accuracy_std": stdev(accuracies) if len(accuracies) > 1 else None,
        **{name: _mean(done, name) for name in AVERAGED},
        "cost_range": [min(costs), max(costs)] if costs else None,
        "measured": any(row["measured"] for row in done),
    }


def _known(rows: Sequence[Row], name: str) -> list[float]:
    return [row[name] for row in rows if row[name] is not None]


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = _known(rows, name)
    return fmean(values) if values else None


def _rank(entry: Entry) -> tuple[int, float]:
    if entry["accuracy"] is not None:
        return 0, -entry["accuracy"]
    return (1 if entry["running"] or entry["waiting"] else 2), 0.0


def _size(budget: str) -> float:
    """How large a budget is, next to others in the same unit.

    >>> [_size(budget) for budget in ("0.5", "50%", "20M", "1.2g", "much")]
    [0.5, 0.5, 20000000.0, 1200000000.0, inf]
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([%KMGB]?)\s*", str(budget), re.IGNORECASE)
    try:
        return float(found[1]) * SUFFIXES[found[2].upper()] if found else math.inf
    except ValueError:
        return math.inf


def markdown(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """A title, what came out, the table, what its marks mean, how it was made, and what failed."""
    entries = summary(rows)
    head = columns(entries)
    table = [unpruned_cells(facts, entries), *(table_cells(e, entries, facts) for e in entries)]
    what = "budgets" if facts["kind"] == "sweep" else "pruning methods"
    lines = [
        f"# {plain(facts['title'])}: {what} compared",
        "",
        *_told(verdict(entries, facts)),
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * 2}{'---:|' * (len(head) - 2)}",
        *(f"| {' | '.join(map(plain, line))} |" for line in table),
        "",
        *(f"{note}\n" for note in footnotes(entries, facts)),
        f"{_made(facts['command'])} {plain(machine(facts))}",
        "",
        *_failed(rows),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _made(command: str) -> str:
    return f"Made by {code(command)}." if command else "Made from Python."


def _told(sentences: Sequence[str]) -> list[str]:
    """One paragraph; a list where there are several budgets."""
    if len(sentences) < 3:
        return [plain(" ".join(sentences))]
    return [plain(sentences[0]), "", *(f"- {plain(one)}" for one in sentences[1:])]


def _failed(rows: Sequence[Row]) -> list[str]:
    found = failures(rows)
    if not found:
        return []
    return ["## Failed runs", "", *(f"- {plain(run)}: {plain(why)}" for run, why in found)]


def live_table(rows: Sequence[Row], teacher: Mapping[str, Any] | None) -> Table:
    """For the terminal while it runs, in the order of the runs, so that no line jumps."""
    groups = _groups(rows)
    entries = [_entry(group) for group in groups]
    several = {name: len({e[name] for e in entries}) > 1 for name in ("budget", "transfer")}
    table = Table(box=SIMPLE, pad_edge=False, show_edge=False, collapse_padding=True)
    table.add_column("method", no_wrap=True)
    for name in (name for name, shown in several.items() if shown):
        table.add_column(name, no_wrap=True)
    table.add_column("runs", overflow="fold", min_width=10)
    table.add_column("accuracy", justify="right", no_wrap=True)
    for name in ("MACs", "search s", "train s"):
        table.add_column(name, justify="right")
    if teacher:
        known = teacher_of(teacher)
        blank = [NOTHING for shown in several.values() if shown]
        numbers = _numbers(percent(known["accuracy"]), known["macs"], None, known["seconds"])
        table.add_row(UNPRUNED, *blank, "", *numbers)
    for entry, group in zip(entries, groups, strict=True):
        names = (Text(str(entry[name])) for name, shown in several.items() if shown)
        # how many are done stands in the column before
        reached = accuracy(entry).partition(" (")[0]
        numbers = _numbers(reached, entry["macs"], entry["search_seconds"], entry["train_seconds"])
        table.add_row(Text(entry["method"]), *names, _state(entry, group), *numbers)
    return table


def _numbers(
    reached: str, macs: float | None, search: float | None, training: float | None
) -> list[str]:
    seconds = (NOTHING if value is None else f"{value:,.1f}" for value in (search, training))
    return [reached, size_of(macs), *seconds]


def _state(entry: Entry, group: Sequence[Row]) -> Text:
    """Where the seeds of one line are; the reason of one that runs is what it is at."""
    parts = []
    if entry["n"]:
        parts.append(f"{entry['n']}/{runs_of(entry)} done")
    if entry["running"]:
        doing = [row["reason"] for row in group if row["state"] == "running" and row["reason"]]
        parts.append(f"running: {short(doing[0])}" if doing else "running")
    elif entry["waiting"] and not parts:
        parts.append("waiting")
    if entry["failed"]:
        times = f"{entry['failed']} failed" if parts else "failed"
        parts.append(f"{times}: {short('; '.join(entry['reasons']))}")
    style = "red" if entry["failed"] else "dim" if entry["waiting"] == runs_of(entry) else ""
    return Text(", ".join(parts), style=style)
