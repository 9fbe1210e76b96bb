"""How far a job is: what the loops report to, and the bar that a person sees."""

import time
from typing import Protocol

__all__ = ["Bar", "Progress", "Silent", "Titled"]


class Progress(Protocol):
    """Told by a loop what it is doing and how far it is."""

    def start(self, what: str, total: int, done: int) -> None: ...

    def advance(self, done: int) -> None: ...

    def note(self, text: str) -> None: ...


class Silent:
    """Shows nothing."""

    def start(self, what: str, total: int, done: int) -> None:
        pass

    def advance(self, done: int) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Titled:
    """Says of which part of a job it tells.

    >>> class Loud(Silent):
    ...     def start(self, what, total, done):
    ...         print(what)
    >>> Titled("2/3 search", Loud()).start("searching", 10, 0)
    2/3 search: searching
    """

    def __init__(self, title: str, progress: Progress) -> None:
        self._title, self._progress = title, progress
        self.advance, self.note = progress.advance, progress.note

    def start(self, what: str, total: int, done: int) -> None:
        self._progress.start(f"{self._title}: {what}", total, done)


class Bar:
    """A progress bar with the time left, on stderr, and only if that is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import (
            Progress as RichProgress,
        )

        console = Console(stderr=True)
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            # the estimate of the time left looks at the last minutes, not at the last 30 s
            speed_estimate_period=300,
        )
        self._task = self._bar.add_task("", note="", total=None)
        self._shown = 0.0
        self._total = 0

    def __enter__(self) -> "Bar":
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
