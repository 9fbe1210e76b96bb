"""What a search writes down: a row a step, a row an epoch, and the distributions."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..runs.run_folder import Run
from ..training.checkpoints import Progressing

__all__ = ["Log", "State"]

STEPS = "steps.csv"
DISTRIBUTIONS = "distributions.jsonl"


@dataclass(kw_only=True)
class State(Progressing):
    """Where a search is."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    """One for each step of the running epoch."""


class Log:
    """Keeps the rows in the state and, if there is a run folder, in its files.

    Files are only ever added to, before the checkpoint is written; what a process that was killed
    had added after its last checkpoint is cut off here.
    """

    def __init__(self, run: Run | None, state: State) -> None:
        self._run, self._state = run, state
        self._mark = time.perf_counter()
        self._written = len(state.rows)
        if run is not None:
            run.truncate_lines(
                STEPS, state.step + 1 if state.step else 0
            )  # a line of names stands above
            run.truncate_lines(DISTRIBUTIONS, len(state.history))

    def add(self, row: dict[str, Any]) -> None:
        """Note one step."""
        self._state.rows.append(row)

    def settle(self) -> None:
        """Bring the file of steps, and the time, up to date."""
        now = time.perf_counter()
        self._state.seconds += now - self._mark
        self._mark = now
        rows = self._state.rows[self._written :]
        if self._run is not None and rows:
            names = [] if rows[0]["step"] > 1 else [",".join(rows[0])]
            lines = [",".join("" if v is None else repr(v) for v in row.values()) for row in rows]
            self._run.append_lines(STEPS, [*names, *lines])
        self._written = len(self._state.rows)

    def close_epoch(self, chances: Mapping[str, Tensor]) -> None:
        """Turn the steps of the epoch into its row, and keep the distributions."""
        self.settle()
        state, rows = self._state, self._state.rows
        last = rows[-1]
        learnt = ("weight", "architecture")
        means = {
            f"{phase}_{what}": _mean(rows, f"{phase}_{what}")
            for phase in learnt
            for what in ("loss", "accuracy")
        }
        ends = ("lr", "tau", "cost_loss", "derived", "expected", "discrepancy", "entropy")
        state.history.append(
            {
                "epoch": last["epoch"],
                "step": last["step"],
                **means,
                **{name: last[name] for name in ends},
                "seconds": state.seconds,
            }
        )
        if self._run is not None:
            sizes = {name: p.detach().tolist() for name, p in chances.items()}
            self._run.append_lines(DISTRIBUTIONS, [json.dumps({"epoch": last["epoch"], **sizes})])
        state.rows, state.seconds, self._written = [], 0.0, 0


def _mean(rows: list[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) / len(values) if values else None
