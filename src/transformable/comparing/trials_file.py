"""The states of all trials in the progress file of a comparison."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..runs import progress_file
from ..runs.progress_file import ProgressRecord
from .trials import Trial

__all__ = ["TrialsFile"]

ENDED = ("done", "failed")
STATES = ("running", "failed", "waiting", "done")
"""A trial with runs in several states is in the first of these."""


class TrialsFile:
    """Writes the states of the trials that ``rows`` belong to; to be called from time to time."""

    def __init__(self, folder: Path, rows: Callable[[], Sequence[Mapping[str, Any]]]) -> None:
        self._folder, self._rows = folder, rows
        self._begun = time.monotonic()
        self._first: int | None = None
        self.write()

    def __call__(self) -> None:
        if time.monotonic() - self._written >= progress_file.EVERY_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the file now."""
        self._written = time.monotonic()
        runs: dict[str, dict[str, Mapping[str, Any]]] = {}
        for row in self._rows():
            trial = Trial(method=row["method"], budget=row["budget"], seed=row["seed"])
            runs.setdefault(trial.name, {})[row["state"]] = row
        trials = {}
        for name, by_state in runs.items():
            state = next(each for each in STATES if each in by_state)
            reason = by_state[state]["reason"] if state == "failed" else None
            trials[name] = {"state": state, "reason": reason}
        ended = sum(trial["state"] in ENDED for trial in trials.values())
        self._first = ended if self._first is None else self._first
        ProgressRecord(
            stage="trials",
            done=ended,
            total=len(trials),
            first=self._first,
            seconds=self._written - self._begun,
            trials=trials,
        ).write(self._folder)
