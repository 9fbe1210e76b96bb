"""The report of a pruning, or of a comparison: one page to look at, and the same in short."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..atomic_files import write_whole
from . import comparison, results
from .page import page
from .reading import read_facts
from .summary import summary

__all__ = ["write_comparison", "write_report"]


def write_report(folder: Path) -> Path:
    """Write ``report.html`` and ``summary.md`` into the folder of a finished ``tas prune``.

    The same folder gives the same bytes. The path of the page is given back.

    >>> write_report(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere is not the folder of a finished tas prune: there is no such folder; ...
    """
    facts = read_facts(folder)
    _write(folder, {"summary.md": summary(facts), "report.html": page(facts)})
    return folder / "report.html"


def write_comparison(
    folder: Path, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    """Write ``results.csv``, ``results.md`` and ``report.html`` into the folder of a comparison."""
    texts = {
        "results.csv": results.csv_text(rows),
        "results.md": results.markdown(rows, facts),
        "report.html": comparison.page(rows, facts),
    }
    _write(folder, texts)


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        try:
            write_whole(folder / name, text)
        except OSError as error:
            raise ValueError(f"cannot write {folder / name}: {error.strerror}") from None
