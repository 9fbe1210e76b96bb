"""The steps of a running epoch, which become one row of the history at its end."""

import time
from collections.abc import Callable
from typing import Any

from .checkpoints import LoopState

__all__ = ["EpochLog", "Row"]

Row = dict[str, Any]

FLUSH_EVERY = 50
"""Steps whose values may stay on the device before they are read together."""


class EpochLog:
    """Collects a row for each step and moves the rows, when flushed, into the state of the loop.

    ``on_flush`` is given the new rows and returns them as plain numbers.
    """

    def __init__(self, state: LoopState, on_flush: Callable[[list[Row]], list[Row]]) -> None:
        self._state, self._on_flush = state, on_flush
        self._waiting: list[Row] = []
        self._clock = time.perf_counter()

    def add(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) == FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        """Bring the rows and the seconds of the state up to date."""
        rows, self._waiting = self._waiting, []
        self._state.rows += self._on_flush(rows)
        before, self._clock = self._clock, time.perf_counter()
        self._state.seconds += self._clock - before

    def close_epoch(self, summary: Row) -> None:
        """Replace all rows of the epoch by one row in the history."""
        self._state.history.append(summary)
        self._state.rows, self._state.seconds = [], 0.0
        self._clock = time.perf_counter()
