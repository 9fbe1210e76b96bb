"""SIGINT and SIGTERM as a flag that the loops check, so that they can save first."""

import signal
import threading
from types import FrameType

__all__ = ["Interrupted", "StopSignals"]


class Interrupted(KeyboardInterrupt):
    """The work was stopped by a signal; what was done is saved."""


class StopSignals:
    """While entered, the first SIGINT or SIGTERM sets ``requested``; a second one acts as usual.

    Only the main thread can handle signals; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before = {}
