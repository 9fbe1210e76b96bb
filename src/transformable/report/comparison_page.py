"""The report of a comparison or a sweep, as a page and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from .comparison_results import (
    Entry,
    Row,
    accuracy_text,
    average_over_seeds,
    label,
    macs_of,
    unpruned,
)
from .comparison_table import UNPRUNED, failures, footnotes, table_columns, table_lines
from .conclusions import budget_text, conclusions
from .formatting import METRIC_NAMES, MISSING, count, duration, milliseconds, percent
from .rendering import render
from .scatter_plot import COLOURS, MARKERS, LegendEntry, Point, Reference, ScatterPlot

__all__ = ["comparison_markdown", "comparison_page"]


def comparison_page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """The text of ``report.html``."""
    entries = average_over_seeds(rows)
    times = _times(entries)
    return render(
        "comparison.html",
        **_common(rows, entries, facts),
        missing=MISSING,
        plots=_scatter_plots(rows, entries, facts),
        times=times,
        longest=max((search + training for _, search, training in times), default=0.0) or 1.0,
        teacher_seconds=unpruned(facts["teacher"])["seconds"],
        setup=_setup(rows, facts),
    )


def comparison_markdown(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """The text of ``results.md``."""
    return render("results.md", **_common(rows, average_over_seeds(rows), facts))


def _common(
    rows: Sequence[Row], entries: Sequence[Entry], facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "facts": facts,
        "conclusions": conclusions(entries, facts),
        "columns": table_columns(entries),
        "lines": table_lines(entries, facts),
        "footnotes": footnotes(entries, facts),
        "conditions": _conditions(facts),
        "failures": failures(rows),
    }


def _conditions(facts: Mapping[str, Any]) -> str:
    """How long the networks were trained, and on which machine, as far as that is known."""
    about, parts = facts["environment"], []
    if about.get("cpu"):
        parts.append(str(about["cpu"]))
    if about.get("threads"):
        parts.append("1 thread" if about["threads"] == 1 else f"{about['threads']} threads")
    if about.get("torch"):
        parts.append(f"torch {about['torch']}")
    measured = f" Measured on {', '.join(parts)}." if parts else ""
    return f"Every small network was trained for {facts['epochs']} epochs.{measured}"


def _scatter_plots(
    rows: Sequence[Row], entries: Sequence[Entry], facts: Mapping[str, Any]
) -> list[ScatterPlot]:
    methods = dict.fromkeys(row["method"] for row in rows)
    colours = {method: i % COLOURS for i, method in enumerate(methods)}
    transfers = dict.fromkeys(row["transfer"] for row in rows)
    markers = {transfer: MARKERS[i % len(MARKERS)] for i, transfer in enumerate(transfers)}
    legend = [LegendEntry(method, colour, MARKERS[0]) for method, colour in colours.items()]
    if len(markers) > 1:
        legend += [LegendEntry(transfer, None, marker) for transfer, marker in markers.items()]

    def points(xs: Sequence[float | None]) -> list[Point]:
        return [
            Point(
                label=entry["method"],
                tooltip=_tooltip(entry, entries, facts),
                colour=colours[entry["method"]],
                marker=markers[entry["transfer"]],
                x=x,
                y=entry["accuracy"],
                std=entry["accuracy_std"],
            )
            for entry, x in zip(entries, xs, strict=True)
            if entry["accuracy"] is not None and x is not None
        ]

    targets = facts["targets"].values()
    about = "Higher is more accurate, further left is cheaper."
    if any(entry["accuracy_std"] is not None for entry in entries):
        about += " A bar is one std over the seeds to each side."
    return [
        ScatterPlot(
            key="by-macs",
            title="Accuracy against MACs",
            description=about,
            x_name="MACs",
            x_unit="count",
            points=points([macs_of(entry, facts) for entry in entries]),
            reference=_reference(facts, "macs"),
            bands=[(one["low"], one["high"]) for one in targets if one["metric"] == "macs"],
            all_legend=legend,
        ),
        ScatterPlot(
            key="by-latency",
            title="Accuracy against measured latency",
            description=about.replace("cheaper", "faster"),
            x_name="latency, ms",
            x_unit="plain",
            points=points([entry["latency_ms"] for entry in entries]),
            reference=_reference(facts, "latency_ms"),
            bands=(),
            all_legend=legend,
        ),
    ]


def _tooltip(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    macs = macs_of(entry, facts)
    parts = [
        f"{label(entry, entries)}, budget {entry['budget']}: {accuracy_text(entry)}",
        f"{count(macs)} MACs" if macs is not None else "",
        milliseconds(entry["latency_ms"]) if entry["latency_ms"] is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _reference(facts: Mapping[str, Any], name: str) -> Reference | None:
    teacher = unpruned(facts["teacher"])
    if teacher["accuracy"] is None:
        return None
    x = teacher[name]
    size = "" if x is None else f", {count(x)} MACs" if name == "macs" else f", {milliseconds(x)}"
    text = f"{UNPRUNED}: {percent(teacher['accuracy'])}{size}"
    return Reference(label=text, x=x, y=teacher["accuracy"])


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


def _setup(rows: Sequence[Row], facts: Mapping[str, Any]) -> dict[str, Any]:
    def values(key: str) -> list[str]:
        return list(dict.fromkeys(str(row[key]) for row in rows))

    # one search serves all transfers
    searches = {(row["method"], row["budget"], row["seed"]): row["search_seconds"] for row in rows}
    spent = [*searches.values(), *(row["train_seconds"] for row in rows)]
    budgets = [budget_text(budget, facts) for budget in values("budget")]
    return {
        "methods": ", ".join(values("method")) or MISSING,
        "transfer": ", ".join(values("transfer")) or MISSING,
        "seeds": ", ".join(values("seed")) or MISSING,
        "budget": ", ".join(budgets) or MISSING,
        "metric": METRIC_NAMES.get(facts["metric"], facts["metric"]),
        "epochs": facts["epochs"],
        "time of all runs": duration(sum(seconds or 0.0 for seconds in spent)),
        "runs at the same time": facts.get("jobs", 1),
    }
