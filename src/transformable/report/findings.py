"""The table of a comparison, cell by cell, and its footnotes: for the page and for Markdown."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from .wording import NOTHING, count, duration, milliseconds, percent, points

__all__ = [
    "UNPRUNED",
    "Entry",
    "accuracy",
    "by_budget",
    "columns",
    "failures",
    "footnotes",
    "label",
    "machine",
    "macs_of",
    "marks",
    "outside",
    "overlapping",
    "runs_of",
    "short",
    "size_of",
    "table_cells",
    "teacher_of",
    "time_words",
    "unpruned_cells",
    "winner",
]

Entry = Mapping[str, Any]
"""The seeds of one method, budget and transfer together, as results.summary makes it."""

UNPRUNED = "unpruned"
SHORT = 48
OVERLAPS, SINGLE, MEASURED, OUTSIDE = "≈", "†", "‡", "§"
MEANINGS = {
    OVERLAPS: "its mean ± std overlaps with that of the best at the same budget, so over these "
    "seeds the two cannot be told apart.",
    SINGLE: "a single run, so its spread over seeds is not known.",
    MEASURED: "measured on held-out images, since the cost depends on them.",
    OUTSIDE: "at least one run is outside the band of its budget.",
}


def runs_of(entry: Entry) -> int:
    """How many runs there are, in whatever state."""
    return int(entry["n"] + entry["failed"] + entry["running"] + entry["waiting"])


def short(text: str) -> str:
    """
    >>> short("no shape\\n of this network"), short("word " * 20)
    ('no shape of this network', 'word word word word word word word word word…')
    """
    text = re.sub(r"\s+", " ", text).strip()
    if len(text) <= SHORT:
        return text
    kept = textwrap.shorten(text, SHORT, placeholder="…")
    # a first word that is too long for itself
    return kept if len(kept) > 1 else text[: SHORT - 1] + "…"


def label(entry: Entry, entries: Sequence[Entry]) -> str:
    """The method, and how its weights were made where that differs."""
    several = len({one["transfer"] for one in entries}) > 1
    return f"{entry['method']} ({entry['transfer']})" if several else str(entry["method"])


def accuracy(entry: Entry) -> str:
    """
    >>> accuracy({"accuracy": 0.801, "accuracy_std": 0.002, "n": 3})
    '80.10% ± 0.20 (n = 3)'
    """
    std = entry["accuracy_std"]
    spread = "" if std is None else f" ± {100 * std:.2f}"
    return f"{percent(entry['accuracy'])}{spread} (n = {entry['n']})"


def by_budget(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """The entries that have a result, by budget, the best of each first."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["accuracy"] is not None:
            found.setdefault(entry["budget"], []).append(entry)
    return found


def overlapping(best: Entry, other: Entry) -> bool | None:
    """Whether two intervals of one std around the mean touch; None where a std is not known.

    >>> best = {"accuracy": 0.8, "accuracy_std": 0.01}
    >>> overlapping(best, {"accuracy": 0.785, "accuracy_std": 0.006})
    True
    >>> overlapping(best, {"accuracy": 0.785, "accuracy_std": 0.004})
    False
    """
    if best["accuracy_std"] is None or other["accuracy_std"] is None:
        return None
    gap = abs(best["accuracy"] - other["accuracy"])
    return bool(gap <= best["accuracy_std"] + other["accuracy_std"])


def winner(done: Sequence[Entry]) -> bool:
    """Whether the first is better than every other by more than the spread."""
    return len(done) > 1 and all(overlapping(done[0], other) is False for other in done[1:])


def macs_of(entry: Entry, facts: Mapping[str, Any]) -> float | None:
    """The MACs that count: where they depend on the images, those that were measured."""
    measured = entry["measured"] and facts["metric"] == "macs"
    macs: float | None = entry["cost"] if measured else entry["macs"]
    return macs


def teacher_of(teacher: Mapping[str, Any] | None) -> dict[str, Any]:
    """The unpruned network in numbers; what is not known is None."""
    names = ("accuracy", "macs", "params", "latency_ms", "seconds")
    return {**dict.fromkeys(names), **(teacher or {})}


def outside(entry: Entry, facts: Mapping[str, Any]) -> bool:
    """Whether a run costs less or more than its budget allows."""
    target, costs = facts["targets"].get(entry["budget"]), entry["cost_range"]
    return bool(target and costs) and not target["low"] <= costs[0] <= costs[1] <= target["high"]


def marks(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    """The signs of the footnotes to an accuracy."""
    if entry["accuracy"] is None:
        return ""
    best = by_budget(entries)[entry["budget"]][0]
    found = {
        OVERLAPS: entry is not best and overlapping(best, entry),
        SINGLE: entry["accuracy_std"] is None,
        OUTSIDE: outside(entry, facts),
    }
    return "".join(sign for sign, holds in found.items() if holds)


def footnotes(entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    """How to read the table: only what is in it."""
    used = {sign for entry in entries for sign in marks(entry, entries, facts)}
    used |= {MEASURED for entry in entries if entry["measured"]}
    notes = [f"{sign} {words}" for sign, words in MEANINGS.items() if sign in used]
    if any(entry["accuracy_std"] is not None for entry in entries):
        notes.insert(0, "± is the sample standard deviation over n seeds.")
    return notes


def columns(entries: Sequence[Entry]) -> list[str]:
    """The names of the columns; the budget is one where there are several."""
    budgets = ["budget"] if _several(entries) else []
    numbers = ["accuracy", "change", "MACs", "params", "latency", "search", "training"]
    return ["method", "transfer", *budgets, *numbers]


def _several(entries: Sequence[Entry]) -> bool:
    return len({entry["budget"] for entry in entries}) > 1


def unpruned_cells(facts: Mapping[str, Any], entries: Sequence[Entry]) -> list[str]:
    """The line of the network that all start from."""
    teacher = teacher_of(facts["teacher"])
    return [
        UNPRUNED,
        *[NOTHING] * (2 if _several(entries) else 1),
        percent(teacher["accuracy"]),
        NOTHING,
        size_of(teacher["macs"]),
        size_of(teacher["params"]),
        milliseconds(teacher["latency_ms"]),
        NOTHING,
        time_words(teacher["seconds"]),
    ]


def table_cells(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    """The line of an entry, under `columns`."""
    teacher = teacher_of(facts["teacher"])
    budget = [str(entry["budget"])] if _several(entries) else []
    measured = f" {MEASURED}" if entry["measured"] else ""
    return [
        str(entry["method"]),
        str(entry["transfer"]),
        *budget,
        _outcome(entry, marks(entry, entries, facts)),
        _change(entry, teacher),
        size_of(macs_of(entry, facts), teacher["macs"]) + measured,
        size_of(entry["params"], teacher["params"]),
        milliseconds(entry["latency_ms"]),
        time_words(entry["search_seconds"]),
        time_words(entry["train_seconds"]),
    ]


def _outcome(entry: Entry, signs: str) -> str:
    if entry["accuracy"] is not None:
        failed = f", {entry['failed']} failed" if entry["failed"] else ""
        return f"{accuracy(entry)}{failed} {signs}".strip()
    if entry["running"] or entry["waiting"]:
        return "running" if entry["running"] else "waiting"
    return f"failed: {short('; '.join(entry['reasons']))}" if entry["failed"] else NOTHING


def _change(entry: Entry, teacher: Mapping[str, Any]) -> str:
    if entry["accuracy"] is None or teacher["accuracy"] is None:
        return NOTHING
    return points(teacher["accuracy"], entry["accuracy"])


def size_of(value: float | None, whole: float | None = None) -> str:
    """
    >>> size_of(5065029, 10130058), size_of(10130058), size_of(None)
    ('5.07M (50.0%)', '10.13M', '–')
    """
    if value is None:
        return NOTHING
    return f"{count(value)} ({value / whole:.1%})" if whole else count(value)


def time_words(seconds: float | None) -> str:
    """Finer than `duration`, since times are held against each other.

    >>> time_words(8.81), time_words(210), time_words(9000), time_words(None)
    ('8.8 s', '3.5 min', '2.5 h', '–')
    """
    if seconds is None:
        return NOTHING
    return f"{seconds / 60:.1f} min" if 120 <= seconds < 7200 else duration(seconds)


def failures(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Which runs failed, and why; the seeds of the same are told together."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row["state"] == "failed":
            run = f"{row['method']}, budget {row['budget']}, transfer {row['transfer']}"
            seeds = found.setdefault((run, row["reason"] or "no reason given"), [])
            seeds.append(str(row["seed"]))
    return [
        (f"{run}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}", why)
        for (run, why), seeds in found.items()
    ]


def machine(facts: Mapping[str, Any]) -> str:
    """What the times were measured with, as far as that is known."""
    about, words = facts["environment"], []
    if about.get("cpu"):
        words.append(str(about["cpu"]))
    if about.get("threads"):
        words.append("1 thread" if about["threads"] == 1 else f"{about['threads']} threads")
    if about.get("torch"):
        words.append(f"torch {about['torch']}")
    measured = f" Measured on {', '.join(words)}." if words else ""
    return f"Every small network was trained for {facts['epochs']} epochs.{measured}"
