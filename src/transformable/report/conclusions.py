"""The conclusions of a comparison, in a few sentences."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..spelling import join_words
from .comparison_results import Entry, accuracy_text, done_by_budget, label, unpruned
from .formatting import METRIC_NAMES, count, milliseconds, percent

__all__ = ["budget_text", "conclusions"]

MAX_NAMES = 3
NO_ERROR = "with fewer than two common seeds the difference has no standard error."


def conclusions(entries: Sequence[Entry], facts: Mapping[str, Any]) -> list[str]:
    """How many runs are done, and for each budget the best method, its lead and how sure it is."""
    by_budget = done_by_budget(entries).items()
    return [_progress(entries), *(_at_budget(budget, done, facts) for budget, done in by_budget)]


def _progress(entries: Sequence[Entry]) -> str:
    states = {key: sum(e[key] for e in entries) for key in ("n", "failed", "running", "waiting")}
    total = sum(states.values())
    if total and states["n"] == total:
        return "The only run is done." if total == 1 else f"All {total} runs are done."
    rest = [f"{states[key]} {key}" for key in ("failed", "running", "waiting") if states[key]]
    return ", ".join([f"{states['n']} of {total} runs are done", *rest]) + "."


def _at_budget(budget: str, done: Sequence[Entry], facts: Mapping[str, Any]) -> str:
    best, others = done[0], done[1:]
    name = label(best, done)
    mean = "accuracy" if best["accuracy_std"] is None else "mean accuracy"
    what = f"{name} has the highest {mean}:" if others else f"{name} reaches"
    gap = _gap(best["accuracy"], unpruned(facts["teacher"])["accuracy"])
    start = f"At a budget of {budget_text(budget, facts)}, {what} {accuracy_text(best)}{gap}."
    if best["outside_band"]:
        start += " Not all of its runs are inside the band of the budget."
    return start + (_lead(done) + _by_transfer(done) if others else "")


def budget_text(budget: str, facts: Mapping[str, Any]) -> str:
    """A budget as it was given, and its value for this network."""
    target = facts["targets"].get(budget)
    if not target:
        return budget
    metric, value = target["metric"], target["value"]
    if metric == "latency":
        return f"{budget} ({milliseconds(value)})"
    return f"{budget} ({count(value)} {METRIC_NAMES.get(metric, metric)})"


def _gap(reached: float, before: float | None) -> str:
    if before is None:
        return ""
    size = f"{100 * abs(reached - before):.2f}"
    if not float(size):
        return ", as much as the unpruned network"
    where = "below" if reached < before else "above"
    return f", {size} points {where} the unpruned network"


def _lead(done: Sequence[Entry]) -> str:
    """By how much the best is ahead of the second, and whether it is clearly ahead of all."""
    best, second = done[:2]
    ahead = 100 * (best["accuracy"] - second["accuracy"])
    size = f"{ahead:.2f}" if ahead >= 0.005 else "less than 0.01"
    lead, but = f" It leads {label(second, done)} by {size} points", "but"
    if math.isclose(ahead, 0, abs_tol=1e-9):  # means are rounded
        lead, but = f" {label(second, done)} has the same", "and"
    close = [label(other, done) for other in done if other["close"]]
    if close:
        return (
            f"{lead}, {but} seed by seed the difference from {_names(close)} is within two "
            "standard errors: there is no clear winner."
        )
    if not best["winner"]:
        return f"{lead}; {NO_ERROR}"
    return f"{lead}; seed by seed, the difference from every other is beyond two standard errors."


def _names(names: Sequence[str]) -> str:
    """
    >>> _names(["a"]), _names(["a", "b"]), _names(list("abcde"))
    ('a', 'a and b', 'a, b, c and 2 others')
    """
    rest = len(names) - MAX_NAMES
    if rest > 1:
        names = [*names[:MAX_NAMES], f"{rest} others"]
    return join_words(names)


def _by_transfer(done: Sequence[Entry]) -> str:
    """Methods compare only where the weights were made in the same way."""
    firsts: dict[str, Entry] = {}
    for entry in done:
        firsts.setdefault(entry["transfer"], entry)
    if len(firsts) == 1 or len({entry["method"] for entry in done}) == 1:
        return ""
    best = (f"{key}: {one['method']} {percent(one['accuracy'])}" for key, one in firsts.items())
    return f" The highest means by transfer are {'; '.join(best)}."
