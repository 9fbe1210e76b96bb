"""How far a job is: what the loops report to."""

__all__ = ["Progress", "Titled"]


class Progress:
    """A loop reports here what it is doing and how many of its steps are done; nothing is shown."""

    def start(self, what: str, total: int, done: int) -> None:
        """A piece of work begins, or continues after some of its steps; ``total`` is 0 where they
        are not counted."""

    def advance(self, done: int) -> None:
        """So many steps are done."""

    def note(self, text: str) -> None:
        """Something to know about the work."""

    def warn(self, text: str) -> None:
        """Something that whoever waits for the result should read now."""


class Titled(Progress):
    """Reports one part of a job, with its title as a prefix."""

    def __init__(self, title: str, progress: Progress) -> None:
        self._title, self._progress = title, progress
        self.advance, self.note = progress.advance, progress.note  # type: ignore[method-assign]
        self.warn = progress.warn  # type: ignore[method-assign]

    def start(self, what: str, total: int, done: int) -> None:
        self._progress.start(f"{self._title}: {what}", total, done)
