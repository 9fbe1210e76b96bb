"""How far a job is: what the loops report to."""

from typing import Protocol

__all__ = ["Progress", "Silent", "Titled"]


class Progress(Protocol):
    """A loop reports here what it is doing and how many of its steps are done."""

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
    """Reports one part of a job, with the title of that part in front.

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
