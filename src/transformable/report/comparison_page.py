"""The report of a comparison or a sweep, as a page and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from .comparison_results import Entry, Row, accuracy_text, compared_entries, label, unpruned
from .comparison_table import (
    DIFFERENCES,
    UNPRUNED,
    differences_table,
    failures,
    footnotes,
    results_table,
)
from .conclusions import budget_text, conclusions
from .formatting import MISSING, count, milliseconds, passes, percent
from .rendering import render
from .scatter_plot import COLOURS, MARKERS, Point, Reference, ScatterPlot

__all__ = ["comparison_markdown", "comparison_page"]


def comparison_page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """The text of ``report.html``."""
    common = _common(rows, facts)
    entries: list[Entry] = common["entries"]
    methods, transfers, seeds, budgets = (
        list(dict.fromkeys(row[name] for row in rows))
        for name in ("method", "transfer", "seed", "budget")
    )
    colours = {method: i % COLOURS for i, method in enumerate(methods)}
    markers = {transfer: MARKERS[i % len(MARKERS)] for i, transfer in enumerate(transfers)}
    bands = [(t["low"], t["high"]) for t in facts["targets"].values() if t["metric"] == "macs"]
    times = _times(entries)

    def plot(cost: str, bands: Sequence[tuple[float, float]] = ()) -> ScatterPlot:
        points = [
            Point(
                label=entry["method"],
                tooltip=_tooltip(entry, entries),
                colour=colours[entry["method"]],
                marker=markers[entry["transfer"]],
                x=entry[cost],
                y=entry["accuracy"],
                std=entry["accuracy_std"],
            )
            for entry in entries
            if entry["accuracy"] is not None and entry[cost] is not None
        ]
        return ScatterPlot(points, _reference(facts, cost), bands)

    return render(
        "comparison.html",
        **common,
        missing=MISSING,
        spreads=any(entry["accuracy_std"] is not None for entry in entries),
        colours=colours,
        markers=markers,
        by_macs=plot("macs", bands),
        by_latency=plot("latency_ms"),
        times=times,
        longest=max((search + training for _, search, training in times), default=0.0) or 1.0,
        teacher_seconds=unpruned(facts["teacher"])["seconds"],
        methods=methods,
        transfers=transfers,
        seeds=seeds,
        budgets=[budget_text(budget, facts) for budget in budgets],
        seconds=_total_seconds(rows),
    )


def comparison_markdown(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """The text of ``results.md``."""
    return render("results.md", **_common(rows, facts))


def _common(rows: Sequence[Row], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What both the page and the Markdown are made from."""
    entries = compared_entries(rows, facts)
    columns, lines = results_table(entries, facts)
    return {
        "facts": facts,
        "entries": entries,
        "conclusions": conclusions(entries, facts),
        "columns": columns,
        "lines": lines,
        "footnotes": footnotes(entries, facts),
        "differences": differences_table(entries),
        "about_differences": DIFFERENCES,
        "conditions": _conditions(rows, facts),
        "failures": failures(rows),
    }


def _conditions(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """How long the networks were trained, and on which machine, as far as that is known."""
    about, parts = facts["environment"], []
    if about.get("cpu"):
        parts.append(str(about["cpu"]))
    if about.get("threads"):
        parts.append("1 thread" if about["threads"] == 1 else f"{about['threads']} threads")
    if about.get("torch"):
        parts.append(f"torch {about['torch']}")
    measured = f" Measured on {', '.join(parts)}." if parts else ""
    if facts.get("passes") is None:
        return f"Every small network was trained for {_training(rows, facts['epochs'])}.{measured}"
    return (
        f"Each method and the training of its small network had {facts['passes']} passes over the "
        f"training images together, or those in its row where a method leaves none for the "
        f"training.{measured}"
    )


def _training(rows: Sequence[Row], epochs: int) -> str:
    """The epochs of a training; where it goes on in the middle of one, its passes."""
    known = [row["train_passes"] for row in rows if row.get("train_passes") is not None]
    if {*known} <= {epochs}:
        return f"{epochs} epochs"
    ends = dict.fromkeys((passes(min(known)), passes(max(known))))
    return (
        f"{' to '.join(ends)} passes over the training images: its {epochs} epochs go on where the "
        "search stopped for it, in the middle of one"
    )


def _tooltip(entry: Entry, entries: Sequence[Entry]) -> str:
    parts = [f"{label(entry, entries)}, budget {entry['budget']}: {accuracy_text(entry)}"]
    if entry["macs"] is not None:
        parts.append(f"{count(entry['macs'])} MACs")
    if entry["latency_ms"] is not None:
        parts.append(milliseconds(entry["latency_ms"]))
    return ", ".join(parts)


def _reference(facts: Mapping[str, Any], name: str) -> Reference | None:
    teacher = unpruned(facts["teacher"])
    if teacher["accuracy"] is None:
        return None
    x = teacher[name]
    size = "" if x is None else f", {count(x)} MACs" if name == "macs" else f", {milliseconds(x)}"
    return Reference(f"{UNPRUNED}: {percent(teacher['accuracy'])}{size}", x, teacher["accuracy"])


def _times(entries: Sequence[Entry]) -> list[tuple[str, float, float]]:
    """The mean seconds of the search and of the training, of each entry with a result."""
    several = len({entry["budget"] for entry in entries}) > 1
    return [
        (
            label(entry, entries) + (f", {entry['budget']}" if several else ""),
            entry["search_seconds"] or 0.0,
            entry["train_seconds"] or 0.0,
        )
        for entry in entries
        if entry["n"]
    ]


def _total_seconds(rows: Sequence[Row]) -> float:
    """The time of all runs; one search serves all transfers."""
    searches = {(row["method"], row["budget"], row["seed"]): row["search_seconds"] for row in rows}
    return sum(filter(None, [*searches.values(), *(row["train_seconds"] for row in rows)]), 0.0)
