"""The runs of a comparison or a sweep: results.csv, and means over the seeds."""

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from .formatting import percent
from .paired import Difference, paired_difference

__all__ = [
    "Entry",
    "Row",
    "accuracy_text",
    "average",
    "average_over_seeds",
    "compared_entries",
    "csv_text",
    "differences",
    "done_by_budget",
    "group_seeds",
    "label",
    "outside_band",
    "unpruned",
]

Row = Mapping[str, Any]
"""One run: its settings, its state, and, once it is done, its numbers."""
Entry = dict[str, Any]
"""The runs of one method, budget and transfer together, as `average` returns them."""

RUN = ("method", "budget", "seed", "transfer", "state", "reason")
NUMBERS = ("accuracy", "top5", "macs", "params", "cost", "measured", "passes", "latency_ms")
TIMES = ("search_seconds", "train_seconds")
AVERAGED = ("accuracy", "cost", "macs", "params", "passes", "latency_ms", *TIMES)
BASELINE = "uniform"


def csv_text(rows: Sequence[Row]) -> str:
    """A line for each run in whatever state; unknown numbers are empty."""
    text = io.StringIO()
    columns = (*RUN, *NUMBERS, *TIMES)
    writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({**row, "reason": re.sub(r"\s+", " ", row["reason"] or "")})
    return text.getvalue()


def average_over_seeds(
    rows: Sequence[Row], targets: Mapping[str, Mapping[str, Any]]
) -> list[Entry]:
    """An entry for each method, budget and transfer.

    Sorted by what the budgets are for this network, their ``targets``, then the best first; entries
    without a result yet follow, and those of which every run failed come last.
    """

    def order(entry: Entry) -> tuple[Any, ...]:
        budget = entry["budget"]
        size = targets.get(budget, {}).get("value", math.inf), budget
        if entry["accuracy"] is not None:
            return *size, 0, -entry["accuracy"]
        return *size, 1 if entry["running"] or entry["waiting"] else 2, 0.0

    return sorted(map(average, group_seeds(rows)), key=order)


def group_seeds(rows: Sequence[Row]) -> list[list[Row]]:
    """The runs that differ only in their seed together, in the order of the first of each."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["method"], row["budget"], row["transfer"]), []).append(row)
    return list(groups.values())


def average(group: Sequence[Row]) -> Entry:
    """The means over the runs of a group that are done, and how many are in which state.

    ``accuracy_std`` is the sample standard deviation, so None for a single run.
    """
    done = [row for row in group if row["state"] == "done"]
    failed = [row for row in group if row["state"] == "failed"]
    # older comparisons have no passes
    known = {name: [row[name] for row in done if row.get(name) is not None] for name in AVERAGED}
    accuracies, costs = known["accuracy"], known["cost"]
    return {
        **{name: group[0][name] for name in ("method", "budget", "transfer")},
        "n": len(done),
        "failed": len(failed),
        "running": sum(row["state"] == "running" for row in group),
        "waiting": sum(row["state"] == "waiting" for row in group),
        "reasons": list(dict.fromkeys(row["reason"] or "no reason given" for row in failed)),
        **{name: fmean(values) if values else None for name, values in known.items()},
        "by_seed": {row["seed"]: row["accuracy"] for row in done},
        "accuracy_std": stdev(accuracies) if len(accuracies) > 1 else None,
        "cost_range": [min(costs), max(costs)] if costs else None,
        "measured": any(row["measured"] for row in done),
        "shared_search": any(row.get("shared_search") for row in done),
    }


def label(entry: Entry, entries: Sequence[Entry]) -> str:
    """The method, and the transfer where there are several."""
    several = len({one["transfer"] for one in entries}) > 1
    return f"{entry['method']} ({entry['transfer']})" if several else str(entry["method"])


def accuracy_text(entry: Entry) -> str:
    """
    >>> accuracy_text({"accuracy": 0.801, "accuracy_std": 0.002, "n": 3})
    '80.10% ± 0.20 (n = 3)'
    """
    std = entry["accuracy_std"]
    spread = "" if std is None else f" ± {100 * std:.2f}"
    return f"{percent(entry['accuracy'])}{spread} (n = {entry['n']})"


def compared_entries(rows: Sequence[Row], facts: Mapping[str, Any]) -> list[Entry]:
    """The entries of `average_over_seeds`, each compared with its budget and with the best there.

    ``outside_band``: a run costs less or more than the budget allows. ``versus``: its paired
    differences from the "best" (of all transfers) and from "uniform" (of its own transfer), where
    it is not that itself. ``close``: it is not clearly behind the best; None for the best itself
    and where no two seeds are common. ``winner``: every other is clearly behind it. ``macs`` are
    the measured ones where they depend on the images.
    """
    entries = average_over_seeds(rows, facts["targets"])
    for entry in entries:
        if entry["measured"] and facts["metric"] == "macs":
            entry["macs"] = entry["cost"]
        outside = outside_band(entry, facts["targets"])
        entry |= {"outside_band": outside, "versus": {}, "close": None, "winner": False}
    for done in done_by_budget(entries).values():
        best, *others = done
        baselines = {one["transfer"]: one for one in done if one["method"] == BASELINE}
        for entry in done:
            for name, other in (("best", best), (BASELINE, baselines.get(entry["transfer"]))):
                if other is not None and other is not entry:
                    entry["versus"][name] = paired_difference(entry["by_seed"], other["by_seed"])
        for other in others:
            behind = other["versus"]["best"]
            if behind is not None and behind["standard_error"] is not None:
                other["close"] = not (behind["clear"] and behind["points"] < 0)
        best["winner"] = bool(others) and all(other["close"] is False for other in others)
    return entries


def outside_band(entry: Entry, targets: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether a run of an entry costs less or more than its budget allows."""
    target, costs = targets.get(entry["budget"]), entry["cost_range"]
    return bool(target and costs and (costs[0] < target["low"] or costs[1] > target["high"]))


def differences(entries: Sequence[Entry]) -> list[Difference]:
    """The paired differences of `compared_entries`, as a flat list for result.json."""
    return [
        {**{key: entry[key] for key in ("method", "budget", "transfer")}, "versus": name, **found}
        for entry in entries
        for name, found in entry["versus"].items()
        if found is not None
    ]


def done_by_budget(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """The entries that have a result, by budget, in the order given."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry["accuracy"] is not None:
            found.setdefault(entry["budget"], []).append(entry)
    return found


def unpruned(teacher: Mapping[str, Any] | None) -> dict[str, Any]:
    """The numbers of the unpruned network; None where one is unknown."""
    names = ("accuracy", "macs", "params", "latency_ms", "seconds")
    return {**dict.fromkeys(names), **(teacher or {})}
