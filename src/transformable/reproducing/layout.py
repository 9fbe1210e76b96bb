"""Our figures beside the paper's: the cells of a table, and its lines as a file of numbers."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ..report.comparison_results import accuracy_text, average
from ..report.formatting import MISSING, count_and_share, duration, percent
from .lines import Line, Run, Section
from .paper import PaperRow

__all__ = ["Results", "Table", "csv_of", "lay_out"]

UNPRUNED = "unpruned"


@dataclass(frozen=True, kw_only=True)
class Results:
    """The results so far."""

    rows: Mapping[Run, Sequence[Mapping[str, Any]]]
    """One row for each seed, as a comparison has them."""
    teachers: Mapping[tuple[str, str], Mapping[str, Any]]
    """Accuracy, top-5 and MACs of the unpruned networks, by network and dataset."""

    def entry(self, run: Run) -> dict[str, Any]:
        """The means over the seeds of a run; ``top5`` and ``drop`` too."""
        rows = self.rows[run]
        found = average(rows)
        top5 = [row["top5"] for row in rows if row["state"] == "done" and row.get("top5")]
        teacher = self.teachers.get((run.model, run.data), {}).get("accuracy")
        known = teacher is not None and found["accuracy"] is not None
        drop = teacher - found["accuracy"] if known else None
        return {**found, "top5": fmean(top5) if top5 else None, "drop": drop}


@dataclass(frozen=True, kw_only=True)
class Table:
    """The cells of one section."""

    title: str
    columns: list[str]
    cells: list[list[str]]


def lay_out(section: Section, results: Results) -> Table:
    """The section with the paper's figures in the columns "paper" and ours beside them."""
    make = {"table1": _transfer_cells, "table2": _select_cells, "table4": _photo_cells}.get(
        section.table, _method_cells
    )
    teacher = results.teachers.get((section.model, section.data), {})
    whole = teacher.get("macs")
    unpruned = {
        **dict.fromkeys(("accuracy_std", "drop", "search_seconds", "train_seconds")),
        "n": 1,
        "failed": 0,
        "running": 0,
        "accuracy": None,
        "macs": None,
        "top5": None,
        **teacher,
    }
    lines = [make(UNPRUNED, None, unpruned, None)]
    lines += [make(line.name, line.paper, results.entry(line.run), whole) for line in section.lines]
    return Table(
        title=f"{section.model} on {section.data}, beside the paper's {_printed_as(section)}",
        columns=list(lines[0]),
        cells=[list(line.values()) for line in lines],
    )


def _transfer_cells(
    name: str, paper: PaperRow | None, ours: Mapping[str, Any], whole: float | None
) -> dict[str, str]:
    return {
        "method": name,
        "paper: MACs": _macs(paper),
        "paper: accuracy": _printed(paper, "accuracy"),
        "ours: MACs": count_and_share(ours["macs"], whole),
        "ours: accuracy": _accuracy(ours),
    }


def _select_cells(
    name: str, paper: PaperRow | None, ours: Mapping[str, Any], whole: float | None
) -> dict[str, str]:
    return {
        "candidates": name,
        "paper: search": _printed(paper, "search_hours", " h"),
        "paper: training": _printed(paper, "train_hours", " h"),
        "paper: MACs": _macs(paper),
        "paper: accuracy": _printed(paper, "accuracy"),
        "ours: search": duration(ours["search_seconds"]),
        "ours: training": duration(ours["train_seconds"]),
        "ours: MACs": count_and_share(ours["macs"], whole),
        "ours: accuracy": _accuracy(ours),
    }


def _method_cells(
    name: str, paper: PaperRow | None, ours: Mapping[str, Any], whole: float | None
) -> dict[str, str]:
    return {
        "method": name,
        "paper: accuracy": _printed(paper, "accuracy"),
        "paper: drop": _printed(paper, "drop", ""),
        "paper: MACs": _macs(paper),
        "ours: accuracy": _accuracy(ours),
        "ours: drop": _points(ours["drop"]),
        "ours: MACs": count_and_share(ours["macs"], whole),
    }


def _photo_cells(
    name: str, paper: PaperRow | None, ours: Mapping[str, Any], whole: float | None
) -> dict[str, str]:
    return {
        "method": name,
        "paper: top-1": _printed(paper, "accuracy"),
        "paper: drop": _printed(paper, "drop", ""),
        "paper: top-5": _printed(paper, "top5"),
        "paper: top-5 drop": _printed(paper, "top5_drop", ""),
        "paper: MACs": _macs(paper),
        "ours: top-1": _accuracy(ours),
        "ours: drop": _points(ours["drop"]),
        "ours: top-5": percent(ours["top5"]),
        "ours: MACs": count_and_share(ours["macs"], whole),
    }


def _printed_as(section: Section) -> str:
    """The network and the dataset of the paper's figures."""
    names = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "imagenet": "ImageNet"}
    networks = {line.paper.network for line in section.lines if line.paper is not None}
    shown = ", ".join(name.replace("resnet", "ResNet-") for name in sorted(networks))
    return f"{shown} on {names[section.dataset]}" if shown else names[section.dataset]


def _printed(paper: PaperRow | None, name: str, unit: str = "%") -> str:
    value = None if paper is None else getattr(paper, name)
    return MISSING if value is None else f"{value:.2f}{unit}"


def _macs(paper: PaperRow | None) -> str:
    """
    >>> _macs(PaperRow(table="", network="", dataset="", name="", method="", macs=22_400_000))
    '22.4M'
    """
    if paper is None:
        return MISSING
    left = "" if paper.pruned is None else f" ({100 - paper.pruned:.1f}%)"
    if paper.macs >= 1e9:
        return f"{paper.macs / 1e9:.2f}G{left}"
    millions = f"{paper.macs / 1e6:g}"
    return f"{millions if len(millions) > 2 else f'{millions}.0'}M{left}"


def _accuracy(ours: Mapping[str, Any]) -> str:
    if ours["accuracy"] is not None:
        failed = f", {ours['failed']} failed" if ours["failed"] else ""
        return f"{accuracy_text(ours)}{failed}"  # type: ignore[arg-type]
    if ours["failed"]:
        return f"failed: {'; '.join(ours['reasons'])}"
    return "running" if ours["running"] else "not run"


def _points(value: float | None) -> str:
    """
    >>> _points(0.0123), _points(-0.002), _points(None)
    ('1.23', '-0.20', '–')
    """
    return MISSING if value is None else f"{100 * value:.2f}"


PAPER = ("accuracy", "drop", "top5", "top5_drop", "macs", "pruned")
PAPER_TABLE2 = ("search_hours", "train_hours", "memory_gb")
OURS = ("n", "failed", "accuracy", "accuracy_std", "drop", "top5", "macs", "params")


def csv_of(sections: Sequence[Section], results: Results) -> str:
    """A line for each line of the sections, in full precision; the paper's figures in percent."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    times = ("search_seconds", "train_seconds")
    paper = (*PAPER, *PAPER_TABLE2)
    run = ("method", "budget", "transfer", "select")
    writer.writerow(
        ["table", "network", "data", "paper_dataset", "name", *run]
        + [f"paper_{name}" for name in paper]
        + [f"ours_{name}" for name in (*OURS, *times)]
    )
    for section in sections:
        for line in section.lines:
            ours = results.entry(line.run)
            writer.writerow(
                [section.table, section.model, section.data, section.dataset, line.name]
                + [getattr(line.run, name) for name in run]
                + [_of_paper(line, name) for name in paper]
                + [ours[name] for name in (*OURS, *times)]
            )
    return text.getvalue()


def _of_paper(line: Line, name: str) -> Any:
    return None if line.paper is None else getattr(line.paper, name)
