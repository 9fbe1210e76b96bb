"""The report of a pruning run or of a comparison: one page for a browser, and Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..atomic_files import write_whole
from .comparison_page import comparison_markdown, comparison_page
from .comparison_results import csv_text
from .run_facts import read_run
from .run_page import run_page, run_summary

__all__ = ["write_comparison", "write_report"]


def write_report(folder: Path) -> Path:
    """Write ``report.html`` and ``summary.md`` into the folder of a finished run of any method.

    The folder is that of ``tas prune`` or of a trial of a comparison; the files depend on it alone,
    byte for byte. Returns the path of the page.

    >>> write_report(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere is not the folder of a finished tas prune: there is no such folder; ...
    """
    facts = read_run(folder)
    _write(folder, {"summary.md": run_summary(facts), "report.html": run_page(facts)})
    return folder / "report.html"


def write_comparison(
    folder: Path, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> None:
    """Write ``results.csv``, ``results.md`` and ``report.html`` into the folder of a comparison."""
    markdown, page = comparison_markdown(rows, facts), comparison_page(rows, facts)
    _write(folder, {"results.csv": csv_text(rows), "results.md": markdown, "report.html": page})


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        try:
            write_whole(folder / name, text)
        except OSError as error:
            raise ValueError(f"cannot write {folder / name}: {error.strerror}") from None
