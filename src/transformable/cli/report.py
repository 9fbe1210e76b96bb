"""What ``tas report`` does."""

import json
from pathlib import Path
from typing import Any

from ..report import write_comparison, write_report
from .outcome import Outcome
from .query_options import Report

__all__ = ["report"]


def report(options: Report, command: str) -> Outcome:
    """Write report.html, and the same in short, into the folder of a run."""
    if options.run is None:
        raise ValueError(
            "nothing to report on: give the folder of a finished run of tas prune, compare or sweep"
        )
    folder = Path(options.run)
    compared = _compared(folder)
    if compared is not None:
        write_comparison(folder, compared["rows"], compared)
        names = {"report": "report.html", "table": "results.md", "runs": "results.csv"}
        result = {name: str(folder / file) for name, file in names.items()}
    else:
        page = write_report(folder)
        result = {"report": str(page), "summary": str(page.with_name("summary.md"))}
    return Outcome(title=f"{options.run}", result=result)


def _compared(folder: Path) -> dict[str, Any] | None:
    """The result of a comparison, if that is what is in the folder."""
    try:
        found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and "rows" in found else None
