"""The figures that the paper prints in its tables 1 to 4."""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["PaperRow", "paper_rows"]


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One row of a table for one dataset, as it is printed; None where the paper has no figure.

    Accuracies, drops and pruned shares are in percent; MACs are what the paper calls FLOPs.
    """

    table: str
    network: str
    dataset: str
    name: str
    """What the paper calls it."""
    method: str
    """The method of this package that corresponds to it."""
    macs: int
    transfer: str | None = None
    select: int | None = None
    accuracy: float | None = None
    drop: float | None = None
    top5: float | None = None
    top5_drop: float | None = None
    pruned: float | None = None
    search_hours: float | None = None
    train_hours: float | None = None
    memory_gb: float | None = None


@cache
def paper_rows(table: str) -> tuple[PaperRow, ...]:
    """The rows of a table, in its order.

    >>> [row.accuracy for row in paper_rows("table1") if row.method == "tas"]
    [68.95, 69.7, 72.41]
    """
    text = files("transformable.reproducing").joinpath("paper.json").read_text(encoding="utf-8")
    return tuple(PaperRow(**row) for row in json.loads(text)["rows"] if row["table"] == table)
