"""The progress of a command: a bar on a terminal, else a line from time to time; and the message of
an interrupted command."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console

from ..launch import is_first_process
from ..report.formatting import duration
from ..runs.progress import Progress
from ..training.interrupts import Interrupted

__all__ = ["LINE_SECONDS", "ProgressBar", "ProgressLines", "progress_bar", "show_progress"]

LINE_SECONDS = 30.0
"""Time between two lines where there is no terminal."""


class ProgressBar(Progress):
    """A progress bar with the time left, on stderr."""

    def __init__(self, console: Console) -> None:
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[count]}"),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            # the estimate of the time left uses the last minutes, not the last 30 s
            speed_estimate_period=300,
        )
        self._task = self._bar.add_task("", note="", count="", total=None)
        self._shown = 0.0
        self._total = 0

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, what: str, total: int, done: int) -> None:
        self._total = total
        # another task: what was noted about the one before does not hold for this one
        self._bar.remove_task(self._task)
        count = _count(done, total)
        self._task = self._bar.add_task(
            what, note="", count=count, total=total or None, completed=done
        )

    def advance(self, done: int) -> None:
        # a step can take less than the drawing of the bar
        if done == self._total or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._bar.update(self._task, completed=done, count=_count(done, self._total))

    def note(self, text: str) -> None:
        self._bar.update(self._task, note=text)

    def warn(self, text: str) -> None:
        line = f"tas: warning: {text}"
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)


class ProgressLines(Progress):
    """A line on stderr from time to time, for a log file."""

    def __init__(self, every: float = LINE_SECONDS) -> None:
        self._every = every
        self._what, self._note = "starting", ""
        self._total = self._done = self._first = 0
        self._begun = time.monotonic()
        self._ended = threading.Event()
        # in a thread, because some work takes minutes without a report
        self._thread = threading.Thread(target=self._print, daemon=True)

    def __enter__(self) -> "ProgressLines":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def start(self, what: str, total: int, done: int) -> None:
        self._what, self._note = what, ""
        self._total, self._done, self._first = total, done, done
        self._begun = time.monotonic()

    def advance(self, done: int) -> None:
        self._done = done

    def note(self, text: str) -> None:
        self._note = text

    def warn(self, text: str) -> None:
        print(f"tas: warning: {text}", file=sys.stderr, flush=True)

    def line(self) -> str:
        """What is being done, how far it is, and how long it will take."""
        parts = [f"{self._what} {_count(self._done, self._total)}".strip()]
        if self._first < self._done < self._total:
            pace = (time.monotonic() - self._begun) / (self._done - self._first)
            parts.append(f"about {duration(pace * (self._total - self._done))} left")
        return ", ".join([*parts, self._note] if self._note else parts)

    def _print(self) -> None:
        while not self._ended.wait(self._every):
            print(self.line(), file=sys.stderr, flush=True)


def _count(done: int, total: int) -> str:
    return f"{done}/{total}" if total else ""


@contextmanager
def show_progress() -> Iterator[Progress]:
    """A bar on a terminal, else a line from time to time; one process of a job shows it."""
    console = Console(stderr=True)
    if not is_first_process():
        yield Progress()
        return
    with ProgressBar(console) if console.is_terminal else ProgressLines() as shown:
        yield shown


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """The progress of work that can be continued: when it is interrupted, the message says how."""
    with show_progress() as shown:
        try:
            yield shown
        except KeyboardInterrupt as stop:
            saved = f"{stop}; " if str(stop) else ""
            raise Interrupted(f"{saved}run the same command again to continue") from None
