"""The progress bar that a person sees, and what an interrupted command says."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich import progress
from rich.console import Console

from ..runs.progress import Progress
from ..training.interrupts import Interrupted

__all__ = ["ProgressBar", "progress_bar"]


class ProgressBar(Progress):
    """A progress bar with the time left, on stderr, and only if that is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # the estimate of the time left looks at the last minutes, not at the last 30 s
            speed_estimate_period=300,
        )
        self._task = self._bar.add_task("", note="", total=None)
        self._shown = 0.0
        self._total = 0

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def start(self, what: str, total: int, done: int) -> None:
        self._total = total
        self._bar.reset(self._task, description=what, total=total, completed=done)

    def advance(self, done: int) -> None:
        # a step can take less than the drawing of the bar
        if done == self._total or time.monotonic() - self._shown > 0.1:
            self._shown = time.monotonic()
            self._bar.update(self._task, completed=done)

    def note(self, text: str) -> None:
        self._bar.update(self._task, note=text)


@contextmanager
def progress_bar() -> Iterator[ProgressBar]:
    """A progress bar; when the work under it is interrupted, the message says how to go on."""
    with ProgressBar() as bar:
        try:
            yield bar
        except KeyboardInterrupt as stop:
            saved = f"{stop}; " if str(stop) else ""
            raise Interrupted(f"{saved}run the same command again to go on") from None
