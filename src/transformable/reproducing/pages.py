"""The files of a table: Markdown, numbers, and a page."""

from collections.abc import Sequence
from pathlib import Path

from ..atomic_files import write_whole
from ..report.rendering import render
from .layout import Results, Table, csv_of, lay_out
from .lines import Section
from .scales import TABLES

__all__ = ["write_table"]

NOTES = (
    'Columns "paper" are the figures that the paper prints, also for the methods of others; '
    'columns "ours" are what was run here: mean ± standard deviation over n seeds.',
    "MACs are what the paper calls FLOPs; in brackets what is left of the unpruned network's.",
)


def write_table(
    out: Path,
    name: str,
    sections: Sequence[Section],
    results: Results,
    command: str,
    more: Sequence[Table] = (),
) -> dict[str, str]:
    """Write the table as it is now into TABLE.md, TABLE.csv and TABLE.html; returns their paths.

    ``more`` are tables that follow in Markdown and on the page.
    """
    values = {
        "title": TABLES[name],
        "tables": [*(lay_out(section, results) for section in sections), *more],
        "notes": NOTES,
        "command": command,
    }
    texts = {
        "md": render("reproduction.md", **values),
        "csv": csv_of(sections, results),
        "html": render("reproduction.html", **values),
    }
    for ending, text in texts.items():
        write_whole(out / f"{name}.{ending}", text)
    return {ending: str(out / f"{name}.{ending}") for ending in texts}
