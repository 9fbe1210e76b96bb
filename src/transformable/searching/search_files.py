"""The files of a search: a row for each step, and the probabilities after each epoch."""

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ..runs.run_folder import Run
from ..tracing.space import Space
from ..training.checkpoints import LoopState
from ..training.epoch_log import Row

__all__ = ["SearchFiles", "epoch_row"]

CANDIDATES = "candidates.json"
STEPS = "steps.csv"
DISTRIBUTIONS = "distributions.jsonl"

MEANS = ("weight_loss", "weight_accuracy", "architecture_loss", "architecture_accuracy")
LAST = ("lr", "tau", "cost_loss", "derived", "expected", "discrepancy", "entropy")


class SearchFiles:
    """Writes candidates.json, steps.csv and distributions.jsonl; without a run folder, nothing.

    Lines are appended before the checkpoint is written. What a killed process appended after its
    last checkpoint is cut off when the search continues.
    """

    def __init__(self, run: Run | None, space: Space) -> None:
        self._run = run
        self._candidates = json.dumps(space.candidates)
        if run is not None:
            path = run.folder / CANDIDATES
            if path.exists() and path.read_text(encoding="utf-8") != self._candidates:
                raise ValueError(
                    f"run folder {run.folder} belongs to a search over other sizes; "
                    "choose another --out"
                )

    def restore(self, state: LoopState) -> None:
        """Make the files agree with the state that the search continues from."""
        if self._run is not None:
            self._run.save_text(CANDIDATES, self._candidates)
            self._run.truncate_lines(STEPS, state.step + 1 if state.step else 0)  # with a header
            self._run.truncate_lines(DISTRIBUTIONS, len(state.history))

    def append_steps(self, rows: list[Row]) -> list[Row]:
        if self._run is not None and rows:
            header = [",".join(rows[0])] if rows[0]["step"] == 1 else []
            lines = [",".join("" if v is None else repr(v) for v in row.values()) for row in rows]
            self._run.append_lines(STEPS, [*header, *lines])
        return rows

    def append_distributions(self, epoch: int, probabilities: Mapping[str, Tensor]) -> None:
        if self._run is not None:
            values = {name: p.detach().tolist() for name, p in probabilities.items()}
            self._run.append_lines(DISTRIBUTIONS, [json.dumps({"epoch": epoch, **values})])


def epoch_row(state: LoopState) -> Row:
    """The row of metrics.csv for the running epoch: means of some values, last values of others."""
    last = state.rows[-1]
    return {
        "epoch": last["epoch"],
        "step": last["step"],
        **{name: _mean([row[name] for row in state.rows]) for name in MEANS if name in last},
        **{name: last[name] for name in LAST},
        "seconds": state.seconds,
    }


def _mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
