"""The table of a comparison with its footnotes, for the page and for Markdown."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from .comparison_results import (
    Entry,
    Row,
    accuracy_text,
    best_first_by_budget,
    clear_winner,
    macs_of,
    outside_band,
    overlap,
    unpruned,
)
from .formatting import MISSING, accuracy_change, count_and_share, duration, milliseconds, percent

__all__ = ["UNPRUNED", "failures", "footnotes", "shorten", "table_columns", "table_lines"]

UNPRUNED = "unpruned"
MAX_LENGTH = 48
OVERLAPS, SINGLE, MEASURED, OUTSIDE = "≈", "†", "‡", "§"
MEANINGS = {
    OVERLAPS: "its mean ± std overlaps with that of the best at the same budget, so over these "
    "seeds the two cannot be told apart.",
    SINGLE: "a single run, so its spread over seeds is not known.",
    MEASURED: "measured on held-out images, since the cost depends on them.",
    OUTSIDE: "at least one run is outside the band of its budget.",
}


def table_columns(entries: Sequence[Entry]) -> list[str]:
    """The names of the columns; the budget has one if there are several."""
    budgets = ["budget"] if _several_budgets(entries) else []
    numbers = ["accuracy", "change", "MACs", "params", "latency", "search", "training"]
    return ["method", "transfer", *budgets, *numbers]


def _several_budgets(entries: Sequence[Entry]) -> bool:
    return len({entry["budget"] for entry in entries}) > 1


def table_lines(entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The unpruned network and every entry: the cells, and how they are to be shown."""
    teacher = unpruned(facts["teacher"])
    blank = [MISSING] * (2 if _several_budgets(entries) else 1)
    whole = [
        percent(teacher["accuracy"]),
        MISSING,
        count_and_share(teacher["macs"]),
        count_and_share(teacher["params"]),
        milliseconds(teacher["latency_ms"]),
        MISSING,
        duration(teacher["seconds"]),
    ]
    winners = [id(d[0]) for d in best_first_by_budget(entries).values() if clear_winner(d)]
    return [
        {"cells": [UNPRUNED, *blank, *whole], "done": True, "winner": False},
        *(
            {
                "cells": _cells(entry, entries, facts),
                "done": entry["accuracy"] is not None,
                "winner": id(entry) in winners,
            }
            for entry in entries
        ),
    ]


def _cells(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    teacher = unpruned(facts["teacher"])
    budget = [str(entry["budget"])] if _several_budgets(entries) else []
    measured = f" {MEASURED}" if entry["measured"] else ""
    return [
        str(entry["method"]),
        str(entry["transfer"]),
        *budget,
        _accuracy_or_state(entry, _marks(entry, entries, facts)),
        accuracy_change(teacher["accuracy"], entry["accuracy"]),
        count_and_share(macs_of(entry, facts), teacher["macs"]) + measured,
        count_and_share(entry["params"], teacher["params"]),
        milliseconds(entry["latency_ms"]),
        duration(entry["search_seconds"]),
        duration(entry["train_seconds"]),
    ]


def _accuracy_or_state(entry: Entry, marks: str) -> str:
    if entry["accuracy"] is not None:
        failed = f", {entry['failed']} failed" if entry["failed"] else ""
        return f"{accuracy_text(entry)}{failed} {marks}".strip()
    if entry["running"] or entry["waiting"]:
        return "running" if entry["running"] else "waiting"
    return f"failed: {shorten('; '.join(entry['reasons']))}" if entry["failed"] else MISSING


def _marks(entry: Entry, entries: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    """The signs of the footnotes to an accuracy."""
    if entry["accuracy"] is None:
        return ""
    best = best_first_by_budget(entries)[entry["budget"]][0]
    found = {
        OVERLAPS: entry is not best and overlap(best, entry),
        SINGLE: entry["accuracy_std"] is None,
        OUTSIDE: outside_band(entry, facts),
    }
    return "".join(sign for sign, holds in found.items() if holds)


def footnotes(entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    """The meanings of the signs that are in the table."""
    used = {sign for entry in entries for sign in _marks(entry, entries, facts)}
    used |= {MEASURED for entry in entries if entry["measured"]}
    notes = [f"{sign} {meaning}" for sign, meaning in MEANINGS.items() if sign in used]
    if any(entry["accuracy_std"] is not None for entry in entries):
        notes.insert(0, "± is the sample standard deviation over n seeds.")
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
    text = re.sub(r"\s+", " ", text).strip()
    if len(text) <= MAX_LENGTH:
        return text
    kept = textwrap.shorten(text, MAX_LENGTH, placeholder="…")
    # a first word that is too long by itself
    return kept if len(kept) > 1 else text[: MAX_LENGTH - 1] + "…"
