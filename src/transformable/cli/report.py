"""What ``tas report`` does."""

from pathlib import Path

from ..report import write_comparison, write_report
from ..runs.run_folder import check_version, read_json
from .outcome import Outcome
from .query_options import Report
from .results_table import COMPARISON_FILES

__all__ = ["report"]


def report(options: Report, command: str) -> Outcome:
    """Write report.html, and the same in short, into the folder of a run."""
    if options.run is None:
        raise ValueError(
            "nothing to report on: give the folder of a finished run of tas prune, compare or sweep"
        )
    folder = Path(options.run)
    check_version(folder)
    path = folder / "result.json"
    result = read_json(path) if path.is_file() else {}
    if "rows" in result:
        write_comparison(folder, result["rows"], result)
        result = {name: str(folder / file) for name, file in COMPARISON_FILES.items()}
    else:
        page = write_report(folder)
        result = {"report": str(page), "summary": str(page.with_name("summary.md"))}
    return Outcome(title=options.run, result=result)
