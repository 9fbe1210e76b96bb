"""What ``tas status`` does; it does not import torch, so that it prints at once."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..report.formatting import MISSING, duration
from ..runs.status import run_status
from .outcome import Outcome
from .query_options import Status

__all__ = ["status"]

GO_ON = "run the same command again to continue"
GONE = "no longer exists and left no reason; it was probably killed"
STATES = {
    "not started": "nothing has been computed here yet",
    "running": "process {pid} is alive",
    "finished": "the results are in the folder",
    "interrupted": f"stopped by a signal, what was done is saved; {GO_ON}",
    "failed": f"{{reason}}; {GO_ON}",
    "dead": f"process {{pid}} {GONE}; {GO_ON}",
    "elsewhere": "process {pid} is on {host}; whether it is alive can be seen only there",
}


def status(options: Status, command: str) -> Outcome:
    """Read a run folder."""
    if options.run is None:
        raise ValueError("no run folder: give the folder of a run")
    folder = Path(options.run)
    return StatusOutcome(title=str(folder), result={**run_status(folder), "out": str(folder)})


@dataclass(frozen=True, kw_only=True)
class StatusOutcome(Outcome):
    """The state in words, then how far the work is, then the trials."""

    def show(self) -> Group:
        seen = self.result
        process = seen.get("process") or {}
        words = STATES[seen["state"]].format(
            pid=process.get("pid"), host=process.get("host"), reason=seen.get("reason")
        )
        rows = [("state", f"{seen['state']}: {words}")]
        if seen["command"]:
            of = f", {seen['model']} on {seen['data']}" if seen["model"] else ""
            rows.append(("command", f"tas {seen['command']}{of}"))
        if seen.get("stage") and seen["state"] != "finished":
            rows += _progress_rows(seen)
        for name in ("last", "result"):
            if seen.get(name):
                rows.append((f"{name} numbers" if name == "last" else name, _numbers(seen[name])))
        shown = self.table([(name, escape(text)) for name, text in rows])
        return Group(shown, _trials_table(seen["trials"])) if seen.get("trials") else shown


def _progress_rows(seen: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = [("stage", seen["stage"])]
    if seen["total"]:
        rows.append(("progress", _progress(seen)))
    if seen["steps_per_second"]:
        rate = seen["steps_per_second"]
        rows.append(("rate", f"{rate:.3g} a second" if rate >= 1 else f"{duration(1 / rate)} each"))
    if seen["state"] == "running" and seen["seconds_left"] is not None:
        rows.append(("time left", f"about {duration(seen['seconds_left'])} of this stage"))
    if seen["note"]:
        rows.append(("note", seen["note"]))
    return [*rows, ("updated", f"{duration(seen['updated_seconds_ago'])} ago")]


def _progress(seen: Mapping[str, Any]) -> str:
    return f"{seen['done']:,} of {seen['total']:,} ({seen['done'] / seen['total']:.1%})"


def _numbers(row: Mapping[str, Any]) -> str:
    """
    >>> _numbers({"file": "student/metrics.csv", "epoch": 3.0, "train_loss": 0.125, "lr": None})
    'student/metrics.csv: epoch 3, train loss 0.125'
    >>> _numbers({"epoch": 1234.0, "train_loss": float("nan")})
    'epoch 1,234, train loss nan'
    """
    parts = [
        f"{name.replace('_', ' ')} {f'{value:,.0f}' if value % 1 == 0 else f'{value:.4g}'}"
        for name, value in row.items()
        if name != "file" and value is not None
    ]
    words = ", ".join(parts)
    return f"{row['file']}: {words}" if "file" in row else words


def _trials_table(trials: list[dict[str, Any]]) -> Table:
    table = Table(box=SIMPLE, pad_edge=False, show_edge=False)
    for name in ("trial", "state", "stage", "progress", "time left"):
        table.add_column(name, overflow="fold")
    for trial in trials:
        stage, progress, left = trial["reason"] or "", "", MISSING
        if trial["state"] in ("running", "waiting") and trial.get("stage"):
            stage = trial["stage"]
            progress = _progress(trial) if trial["total"] else ""
        if trial["state"] == "running":
            left = duration(trial["seconds_left"])
        cells = (trial["trial"], trial["state"], stage, progress, left)
        table.add_row(*map(Text, cells), style="red" if trial["state"] == "failed" else "")
    return table
