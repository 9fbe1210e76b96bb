"""The trials in the folder of a comparison: which are done, and what their results are."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..atomic_files import write_whole
from ..report import write_comparison
from ..report.comparison_results import compared_entries, differences
from ..runs.progress_file import ProgressRecord
from ..runs.run_folder import read_json
from ..settings import Transfer
from ..timing.machine import describe_machine
from .processes import Logs, Work, run_trials, threads_per_trial
from .trials import Trial

__all__ = ["Comparison"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The folder of a comparison and its trials."""

    folder: Path
    trials: Sequence[Trial]
    transfers: Sequence[Transfer]
    metric: str
    jobs: int
    """Trials that run side by side."""
    facts: dict[str, Any]
    """What all trials have in common, for the report; "teacher" holds its costs."""
    running: set[Trial] = field(default_factory=set)

    def is_done(self, trial: Trial) -> bool:
        """Whether all runs of a trial are finished."""
        folder = self.folder / trial.name
        return all((folder / name / "result.json").exists() for name in self.transfers)

    def rows(
        self, known: Mapping[Trial, list[dict[str, Any]]] | None = None
    ) -> list[dict[str, Any]]:
        """One row for each run, with its state so far; ``known`` are rows of trials that ended."""
        ended = {t: rows for t, rows in (known or {}).items() if t not in self.running}
        return [row for trial in self.trials for row in (ended.get(trial) or self.rows_of(trial))]

    def rows_of(self, trial: Trial) -> list[dict[str, Any]]:
        """The rows of one trial: one for each kind of transfer."""
        return [self._row(trial, transfer) for transfer in self.transfers]

    def _row(self, trial: Trial, transfer: Transfer) -> dict[str, Any]:
        path, logs = self.folder / trial.name / transfer / "result.json", Logs(self.folder, trial)
        result = read_json(path) if path.exists() else {}
        reason = None if result else logs.failure()
        state = "done" if result else "failed" if reason else "waiting"
        if trial in self.running and not result:
            state, reason = "running", _doing(self.folder / trial.name)
        before, after = result.get("before", {}), result.get("after", {})
        seconds, passes = result.get("seconds", {}), result.get("passes", {})
        return {
            "method": trial.method,
            "budget": trial.budget,
            "seed": trial.seed,
            "transfer": transfer,
            "state": state,
            "reason": reason,
            **{name: after.get(name) for name in ("accuracy", "top5", "macs", "params")},
            "cost": after.get(self.metric),
            "measured": result.get("measured"),
            "passes": sum(passes.values()) if passes else None,
            "train_passes": passes.get("student"),
            "shared_search": result.get("folders", {}).get("search", "").startswith("../../"),
            "latency_ms": after.get("latency_ms"),
            "teacher_latency_ms": before.get("latency_ms"),
            "search_seconds": seconds.get("search"),
            "train_seconds": seconds.get("student"),
            "notes": result.get("notes", {}),
        }

    def teacher(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The numbers of the teacher; its latency is the median over the trials."""
        path = self.folder / "teacher" / "result.json"
        scores = read_json(path) if path.exists() else {}
        seen = [row["teacher_latency_ms"] for row in rows if row["teacher_latency_ms"]]
        return {
            "accuracy": scores.get("accuracy"),
            **self.facts["teacher"],
            "latency_ms": statistics.median(seen) if seen else None,
            # None if the teacher was given instead of trained
            "seconds": scores.get("seconds") or None,
        }

    def run(
        self,
        work: Work,
        options: Sequence[Any],
        next_trial: Callable[[], Trial | None],
        finished: Callable[[Trial, str | None], None],
        tick: Callable[[], None],
    ) -> None:
        """Run trials in processes until there is no next one; ``finished`` gets each that ended.

        There is one of the ``options`` for each trial that runs at the same time.
        """

        def take() -> Trial | None:
            trial = next_trial()
            if trial is not None:
                self.running.add(trial)
            return trial

        def ended(trial: Trial, reason: str | None) -> None:
            self.running.remove(trial)
            finished(trial, reason)

        run_trials(work, options, self.folder, take, ended, tick)

    def conclude(self, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Write result.json, results.csv, results.md and report.html; returns the result."""
        teacher = self.teacher(rows)
        rows = [_relative_to_teacher(row, teacher["latency_ms"]) for row in rows]
        reasons = [row["reason"] for row in rows if row["state"] == "failed"]
        if reasons and len(reasons) == len(rows):
            raise ValueError(f"all {len(rows)} runs failed; the first: {reasons[0]}")
        environment = {**describe_machine(), "threads": threads_per_trial(self.jobs)}
        shared = {"metric": self.metric, "jobs": self.jobs, "environment": environment}
        facts = {**self.facts, **shared, "teacher": teacher}
        found = differences(compared_entries(rows, facts))
        result = {**facts, "rows": rows, "differences": found, "out": str(self.folder)}
        write_comparison(self.folder, rows, facts)
        write_whole(self.folder / "result.json", json.dumps(result, indent=2) + "\n")
        return result


def _doing(folder: Path) -> str | None:
    """The present stage of a running trial."""
    record = ProgressRecord.read(folder)
    return None if record is None else record.brief


def _relative_to_teacher(row: dict[str, Any], teacher_ms: float | None) -> dict[str, Any]:
    """The row with a latency that can be compared with that of other trials.

    That is the ratio to the teacher, which was timed together with it, times the teacher's median.
    """
    row = dict(row)
    own, teacher_then = row["latency_ms"], row.pop("teacher_latency_ms")
    if own is not None:
        row["latency_ms"] = None if teacher_ms is None else own / teacher_then * teacher_ms
    return row
