"""The table of a comparison with its footnotes, for the page and for Markdown."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from .comparison_results import BASELINE, Entry, Row, accuracy_text, unpruned
from .formatting import (
    GIVEN,
    MISSING,
    accuracy_change,
    count_and_share,
    duration,
    milliseconds,
    passes,
    percent,
    points,
)
from .paired import Difference

__all__ = [
    "DIFFERENCES",
    "OUTSIDE",
    "UNPRUNED",
    "differences_table",
    "failures",
    "footnotes",
    "results_table",
    "shorten",
]

UNPRUNED = "unpruned"
PASSES = (
    "Passes: how often every training image went forward and backward through a network that "
    "learns, in the search and in the training together; forward alone is a third of a pass."
)
SHARED = (
    "The budgets share one search: the passes of each include those of the search down to it, so "
    "they do not add up; the search has its whole time at the budget that was run first, and at "
    "the others only what they added."
)
LATENCY = (
    "Latency: that of a network relative to the unpruned one's, which was timed in turn with it, "
    "times the median of the unpruned one's over all runs; the report of a run has the times as "
    "they were measured."
)
DIFFERENCES = (
    "The mean over the seeds that both have, in points, ± its standard error. A difference is "
    "clear when it is beyond two standard errors."
)
NUMBERS = ("accuracy", "change", "MACs", "params", "passes", "latency", "search", "training")
MAX_LENGTH = 48
CLOSE, SINGLE, MEASURED = "≈", "†", "‡"
OUTSIDE = "§"
MEANINGS = {
    CLOSE: "not clearly behind the best at the same budget: seed by seed, the difference is within "
    "two standard errors.",
    SINGLE: "a single run, so its spread over seeds is not known.",
    MEASURED: "measured on held-out images, since the cost depends on them.",
    OUTSIDE: "at least one run is outside the band of its budget ({bands}), because its method is "
    "too coarse for that: it is compared at another cost.",
}


def results_table(
    entries: Sequence[Entry], facts: Mapping[str, Any]
) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns, and a line for the unpruned network and for every entry.

    A line has its cells and how they are to be shown. A single budget has no column.
    """
    teacher = unpruned(facts["teacher"])
    columns = ["method", "transfer", "budget", *NUMBERS]
    whole = [
        *(UNPRUNED, MISSING, MISSING, percent(teacher["accuracy"]), MISSING),
        count_and_share(teacher["macs"]),
        count_and_share(teacher["params"]),
        MISSING,
        milliseconds(teacher["latency_ms"]),
        MISSING,
        duration(teacher["seconds"]),
    ]
    lines: list[dict[str, Any]] = [{"cells": whole, "done": True, "winner": False}]
    for entry in entries:
        done, winner = entry["accuracy"] is not None, entry["winner"]
        lines.append({"cells": _cells(entry, teacher), "done": done, "winner": winner})
    if len({entry["budget"] for entry in entries}) < 2:
        for cells in (columns, *(line["cells"] for line in lines)):
            del cells[2]
    return columns, lines


def _cells(entry: Entry, teacher: Mapping[str, Any]) -> list[str]:
    measured = f" {MEASURED}" if entry["measured"] else ""
    return [
        *(str(entry[name]) for name in ("method", "transfer", "budget")),
        _accuracy_or_state(entry),
        accuracy_change(teacher["accuracy"], entry["accuracy"]),
        count_and_share(entry["macs"], teacher["macs"]) + measured,
        count_and_share(entry["params"], teacher["params"]),
        passes(entry["passes"]),
        milliseconds(entry["latency_ms"]),
        duration(entry["search_seconds"]),
        duration(entry["train_seconds"]),
    ]


def _accuracy_or_state(entry: Entry) -> str:
    if entry["accuracy"] is not None:
        failed = f", {entry['failed']} failed" if entry["failed"] else ""
        return f"{accuracy_text(entry)}{failed} {_marks(entry)}".strip()
    if entry["running"] or entry["waiting"]:
        return "running" if entry["running"] else "waiting"
    return f"failed: {shorten('; '.join(entry['reasons']))}" if entry["failed"] else MISSING


def _marks(entry: Entry) -> str:
    """The signs of the footnotes to an accuracy."""
    single = entry["accuracy_std"] is None
    found = {CLOSE: entry["close"], SINGLE: single, OUTSIDE: entry["outside_band"]}
    return "".join(sign for sign, holds in found.items() if holds)


def differences_table(entries: Sequence[Entry]) -> tuple[list[str], list[list[str]]]:
    """The columns and the lines of the paired differences; no lines if there are none."""
    names = [n for n in ("best", BASELINE) if any(entry["versus"].get(n) for entry in entries)]
    several = len({entry["budget"] for entry in entries}) > 1
    keys = ["method", "transfer", *(["budget"] if several else [])]
    lines = [
        [
            *(str(entry[key]) for key in keys),
            *(_difference_text(entry["versus"].get(name)) for name in names),
        ]
        for entry in entries
        if any(entry["versus"].values())
    ]
    return [*keys, *(f"minus {'the best' if name == 'best' else name}" for name in names)], lines


def _difference_text(found: Difference | None) -> str:
    if found is None:
        return MISSING
    error = found["standard_error"]
    spread = "" if error is None else f" ± {error:.2f}"
    clear = ", clear" if found["clear"] else ""
    return f"{points(found['points'])}{spread} (n = {found['n']}{clear})"


def footnotes(entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    """The meanings of the signs that are in the table, and what else has to be known."""
    used = {sign for e in entries if e["accuracy"] is not None for sign in _marks(e)}
    used |= {MEASURED for entry in entries if entry["measured"]}
    targets = facts["targets"].values()
    tolerances = {f"± {100 * (each['high'] / each['value'] - 1):.2g}%" for each in targets}
    bands = ", ".join(sorted(tolerances))
    meanings = {sign: meaning.format(bands=bands) for sign, meaning in MEANINGS.items()}
    notes = [f"{sign} {meaning}" for sign, meaning in meanings.items() if sign in used]
    if any(entry["accuracy_std"] is not None for entry in entries):
        notes.insert(0, "± is the sample standard deviation over n seeds.")
    if any(entry["passes"] is not None for entry in entries):
        notes.append(PASSES)
    if any(entry["shared_search"] for entry in entries):
        notes.append(SHARED)
    if any(entry["latency_ms"] is not None for entry in entries):
        notes.append(LATENCY)
    if facts.get("given"):
        notes.append(GIVEN)
    return notes


def failures(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The failed runs and the reasons; seeds with the same reason are listed together."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["state"] == "failed":
            run = f"{row['method']}, budget {row['budget']}, transfer {row['transfer']}"
            seeds = found.setdefault((run, row["reason"] or "no reason given"), [])
            seeds.append(str(row["seed"]))
    return [
        (f"{run}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}", reason)
        for (run, reason), seeds in found.items()
    ]


def shorten(text: str) -> str:
    """
    >>> shorten("no shape\\n of this network"), shorten("word " * 20)
    ('no shape of this network', 'word word word word word word word word word…')
    """
    kept = textwrap.shorten(text, MAX_LENGTH, placeholder="…")
    # only the placeholder is left if the first word is too long by itself
    return text.strip()[: MAX_LENGTH - 1] + "…" if kept == "…" else kept
