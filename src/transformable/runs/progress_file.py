"""How far the work in a run folder is, kept in a file that other processes can read."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from ..atomic_files import write_whole
from .process_identity import ProcessIdentity, this_process
from .progress import Progress
from .run_folder import Run

__all__ = ["EVERY_SECONDS", "ProgressFile", "ProgressRecord", "end_recorded", "progress_kept"]

End = Literal["", "done", "interrupted", "failed"]

FILE = "progress.json"
EVERY_SECONDS = 3.0
"""Time between two records of the same stage."""


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """What progress.json holds."""

    stage: str
    done: int = 0
    total: int = 0
    """Steps of the stage; 0 where they are not counted."""
    first: int = 0
    """The steps that were done when this process began with the stage."""
    seconds: float = 0.0
    """Time since then."""
    note: str = ""
    trials: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """Of a comparison: the "state" of each trial and the "reason" if it failed, as far as this
    process knows."""
    ended: End = ""
    """How the process left the work; empty while it works, and for ever if it was killed."""
    reason: str = ""
    """Why it failed."""
    process: ProcessIdentity = field(default_factory=this_process)
    written: float = field(default_factory=time.time)
    """The time of day, which may jump: only to say how old this is."""

    @classmethod
    def read(cls, folder: Path) -> "ProgressRecord | None":
        """The record in a run folder, or None."""
        path = folder / FILE
        if not path.is_file():
            return None
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**values, "process": ProcessIdentity(**values["process"])})
        except (KeyError, TypeError, ValueError):
            raise ValueError(
                f"{path} cannot be read; remove it, the run does not need it"
            ) from None

    def write(self, folder: Path) -> None:
        """Write the record into a run folder, if that is possible: no run fails without it."""
        with suppress(OSError):
            write_whole(folder / FILE, json.dumps(asdict(self)) + "\n")

    @property
    def rate(self) -> float | None:
        """Mean steps per second since this process began with the stage."""
        done = self.done - self.first
        return done / self.seconds if done > 0 and self.seconds > 0 else None

    @property
    def brief(self) -> str:
        """The stage, and the share of it that is done.

        >>> ProgressRecord(stage="search: training", done=50, total=200).brief
        'search: training 25%'
        """
        return f"{self.stage} {self.done / self.total:.0%}" if self.total > 1 else self.stage


class ProgressFile(Progress):
    """Keeps the progress in a run folder and passes it on."""

    def __init__(self, folder: Path, shown: Progress) -> None:
        self._folder, self._shown = folder, shown
        self._stage, self._note = "", ""
        self._total = self._first = self._done = 0
        self._begun = self._written = 0.0

    def start(self, what: str, total: int, done: int) -> None:
        self._stage, self._note, self._total = what, "", total
        self._first = self._done = done
        self._begun = time.monotonic()
        self._write()
        self._shown.start(what, total, done)

    def advance(self, done: int) -> None:
        self._done = done
        if done == self._total or time.monotonic() - self._written >= EVERY_SECONDS:
            self._write()
        self._shown.advance(done)

    def note(self, text: str) -> None:
        self._note = text
        self._shown.note(text)

    def warn(self, text: str) -> None:
        self._shown.warn(text)

    def close(self) -> None:
        """Write the last count, unless nothing was begun."""
        if self._stage:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        ProgressRecord(
            stage=self._stage,
            done=self._done,
            total=self._total,
            first=self._first,
            seconds=self._written - self._begun,
            note=self._note,
        ).write(self._folder)


@contextmanager
def progress_kept(run: Run | None, shown: Progress) -> Iterator[Progress]:
    """Progress that is kept in the folder of a run, if there is one, with how the work ended."""
    if run is None:
        yield shown
        return
    with end_recorded(run.folder), closing(ProgressFile(run.folder, shown)) as progress:
        yield progress


@contextmanager
def end_recorded(folder: Path) -> Iterator[None]:
    """Record how this process leaves the work in a folder."""
    try:
        yield
    except KeyboardInterrupt:
        _record_end(folder, "interrupted")
        raise
    except BaseException as error:
        _record_end(folder, "failed", " ".join(str(error).split()))
        raise
    _record_end(folder, "done")


def _record_end(folder: Path, ended: End, reason: str = "") -> None:
    with suppress(ValueError):
        record = ProgressRecord.read(folder)
        # another process may have taken over, or nothing was begun
        if record is not None and record.process == this_process():
            replace(record, ended=ended, reason=reason, written=time.time()).write(folder)
