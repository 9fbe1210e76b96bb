"""The report of a pruning: one page to look at, and a short summary for a terminal."""

from pathlib import Path

from ..runs import write_whole
from .page import page
from .reading import read_facts
from .summary import summary

__all__ = ["write_report"]


def write_report(folder: Path) -> Path:
    """Write ``report.html`` and ``summary.md`` into the folder of a finished ``tas prune``.

    The same folder gives the same bytes. The path of the page is given back.

    >>> write_report(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere is not the folder of a finished tas prune: there is no such folder; ...
    """
    facts = read_facts(folder)
    texts = {"summary.md": summary(facts), "report.html": page(facts)}
    for name, text in texts.items():
        try:
            write_whole(folder / name, text)
        except OSError as error:
            raise ValueError(f"cannot write {folder / name}: {error.strerror}") from None
    return folder / "report.html"
