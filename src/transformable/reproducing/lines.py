"""The lines of a table: what the paper prints, and the run that our figures come from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..costing.published import published
from ..settings import Transfer
from .paper import PaperRow, paper_rows
from .scales import Scale

__all__ = ["PUBLISHED", "Line", "Run", "Section", "sections"]

PUBLISHED = "published"
"""The method of a run that trains a network whose sizes the paper's authors have published."""
TABLE1_BUDGET = "0.615"
"""42.5 of 69.1 million MACs, what the network of the paper's TAS has there."""
TABLE2_BUDGET = "0.56"
"""What the networks of the paper's table 2 cost, except for |I| = 1."""
TAS = ("tas-depth", "tas-width", "tas")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The runs, over all seeds, that a figure of ours comes from."""

    model: str
    data: str
    method: str
    """A method; or "published", and then the budget is the name of the published network."""
    budget: str
    transfer: Transfer
    select: int | None = None
    """Candidates that a step of the search draws, where it is not the scale's."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of a table."""

    name: str
    paper: PaperRow | None
    run: Run


@dataclass(frozen=True, kw_only=True)
class Section:
    """The lines of one network and one dataset."""

    table: str
    model: str
    data: str
    dataset: str
    """The paper's dataset whose figures are compared with ours."""
    lines: tuple[Line, ...]


def sections(
    table: str, scale: Scale, networks: Sequence[str], data: Sequence[str]
) -> Iterator[Section]:
    """The sections of a table, for each dataset and network."""
    for each in data:
        dataset = _dataset(table, each)
        for model in networks or scale.networks[table]:
            rows = [row for row in paper_rows(table) if row.dataset == dataset]
            # tables 1 and 2 have one network: others are compared with its figures
            if table in ("table3", "table4"):
                rows = [row for row in rows if row.network == model]
            make = {"table1": _transfers, "table2": _selects}.get(table, _methods)
            lines = make(rows, scale, model, each)
            lines += _published_line(model, each, dataset)
            yield Section(table=table, model=model, data=each, dataset=dataset, lines=tuple(lines))


def _dataset(table: str, data: str) -> str:
    """The paper's dataset that a dataset is compared with."""
    known = list(dict.fromkeys(row.dataset for row in paper_rows(table)))
    kind = data.partition(":")[0]
    return kind if kind in known else known[0]


def _transfers(rows: Sequence[PaperRow], scale: Scale, model: str, data: str) -> list[Line]:
    return [
        _line(
            row.name,
            row,
            model,
            data,
            method=row.method,
            budget=TABLE1_BUDGET,
            transfer=row.transfer,
        )
        for row in rows
    ]


def _selects(rows: Sequence[PaperRow], scale: Scale, model: str, data: str) -> list[Line]:
    how = {"method": "tas", "budget": TABLE2_BUDGET, "transfer": "kd"}
    return [_line(row.name, row, model, data, select=row.select, **how) for row in rows]


def _methods(rows: Sequence[PaperRow], scale: Scale, model: str, data: str) -> list[Line]:
    budget = _budget(rows)
    printed = {row.method: row for row in rows}
    names = [*printed, *(name for name in scale.methods if name not in printed)] or list(TAS)
    return [
        _line(
            printed[name].name if name in printed else name,
            printed.get(name),
            model,
            data,
            method=name,
            budget=budget,
            # as in the paper: TAS learns from the unpruned network, the others start from it
            transfer="kd" if name in TAS else "init",
        )
        for name in names
    ]


def _line(name: str, paper: PaperRow | None, model: str, data: str, **how: Any) -> Line:
    return Line(name=name, paper=paper, run=Run(model=model, data=data, **how))


def _budget(rows: Sequence[PaperRow]) -> str:
    """What the paper's TAS leaves of the network, as a share of its MACs; a half if it has none."""
    shares = [1 - row.pruned / 100 for row in rows if row.method == "tas" and row.pruned]
    return f"{shares[0]:.3f}" if shares else "0.5"


def _published_line(model: str, data: str, dataset: str) -> list[Line]:
    for each in published():
        if (each.network, each.dataset) == (model, dataset):
            name = each.id.rpartition("/")[2]
            how = {"method": PUBLISHED, "budget": name, "transfer": "none"}
            return [_line(f"published {name}", None, model, data, **how)]
    return []
