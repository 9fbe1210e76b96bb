"""What ``tas report`` does."""

from pathlib import Path

from ..queries import Report
from ..report import write_report
from . import Outcome

__all__ = ["report"]


def report(args: Report) -> Outcome:
    """Write report.html and summary.md into the folder of a run."""
    if args.run is None:
        raise ValueError("nothing to report on: give the folder of a finished run of tas prune")
    page = write_report(Path(args.run))
    result = {"report": str(page), "summary": str(page.with_name("summary.md"))}
    return Outcome(title=f"{args.run}", result=result)
