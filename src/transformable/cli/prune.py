"""What ``tas prune`` does."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..pruning.prune import run_job
from ..report import write_report
from ..runs.run_folder import Run
from .jobs import make_job, make_session, run_once
from .outcome import Outcome
from .progress_bar import progress_bar
from .pruning_options import Prune

__all__ = ["prune"]


def prune(options: Prune, command: str) -> Outcome | None:
    """Prune in a run folder; None in all processes but the first."""
    prefix = "prune-" if options.method == "tas" else f"prune-{options.method}-"
    result = run_once(options, prefix, lambda folder, run: _prune(options, folder, command, run))
    if result is None:
        return None
    if not (Path(result["out"]) / "report.html").exists():
        write_report(Path(result["out"]))
    return PruneOutcome.of(options, result)


def _prune(options: Prune, folder: Path, command: str, run: Run | None) -> dict[str, Any]:
    session = make_session(options)
    job = make_job(
        options,
        folder,
        method=options.method,
        budget=options.budget,
        command=command,
        export=options.export,
    )
    job.check(session)
    if run is not None:
        run.start()
    session.fabric.launch()
    with progress_bar() as bar:
        return run_job(job, replace(session, run=run, progress=bar)).summary


@dataclass(frozen=True, kw_only=True)
class PruneOutcome(Outcome):
    """Before, after and change; then the budget, the speed, and where everything is."""

    def show(self) -> Group:
        before, after = self.result["before"], self.result["after"]
        table = Table()
        table.add_column("", style="bold")
        for name in ("before", "after", "change"):
            table.add_column(name, justify="right")
        change = 100 * (after["accuracy"] - before["accuracy"])
        table.add_row(
            "accuracy",
            f"{before['accuracy']:.2%}",
            f"{after['accuracy']:.2%}",
            f"{change:+.2f} points",
        )
        for name, key, form in (
            ("MACs", "macs", "{:,}"),
            ("params", "params", "{:,}"),
            ("file", "bytes", "{:,} bytes"),
            ("latency", "latency_ms", "{:.3g} ms"),
        ):
            a, b = before[key], after[key]
            table.add_row(name, form.format(a), form.format(b), f"{b / a - 1:+.1%}")
        target = self.result["target"]
        out = Path(self.result["out"])
        lines = [
            f"budget: {target['low']:,} to {target['high']:,} {target['metric']}",
            f"latency: median at batch 1 in PyTorch (threads: "
            f"{self.result['environment']['threads']}). {self.result['faster']}",
            f"network: {out / ('export' if 'export' in self.result else 'student')}",
            f"report: {out / 'report.html'}",
        ]
        return Group(self.title, table, *(Text(line) for line in lines))
