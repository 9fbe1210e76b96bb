"""The run folder: the settings, the metrics, the checkpoint, the final weights and the result."""

import contextlib
import csv
import fcntl
import io
import json
import os
import tomllib
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from ..atomic_files import weights_as_bytes, write_whole
from .toml_text import to_toml

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Run", "first_difference", "flat_settings", "read_json", "read_settings"]

SETTINGS = "config.toml"
FORMAT = 2
"""Of the files in a run folder; written into config.toml, counted up when they change."""


_OPEN: weakref.WeakSet["Run"] = weakref.WeakSet()


def _leave_locks_to_the_parent() -> None:
    """A worker that loads images lives on for a while when its parent is killed; it must not keep
    the folder locked."""
    for run in _OPEN:
        run._lock.close()


os.register_at_fork(after_in_child=_leave_locks_to_the_parent)


class Run:
    """A folder that one process at a time may write, and that belongs to one set of settings."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], lock: IO[str]) -> None:
        self.folder, self._settings, self._lock = folder, settings, lock
        self._events: Any = None
        _OPEN.add(self)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        settings: Mapping[str, Any],
        *,
        may_differ: Collection[str] = (),
        wait: bool = False,
    ) -> "Run":
        """Create the folder, or continue an earlier run of the same settings.

        ``may_differ`` names the settings that may change from one call to the next. A folder that
        another process has open is refused, or waited for.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = (folder / ".lock").open("w")
        except OSError as error:
            raise ValueError(
                f"cannot write to run folder {folder}: {error.strerror}; choose another --out"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            lock.close()
            raise ValueError(
                f"run folder {folder} is in use by another process; wait for it, "
                "or choose another --out"
            ) from None
        run = cls(folder, settings, lock)
        try:
            run._check(may_differ)
        except ValueError:
            run.close()
            raise
        return run

    def _check(self, may_differ: Collection[str]) -> None:
        if (self.folder / SETTINGS).exists():
            there = read_settings(self.folder)
            if difference := first_difference(there, self._settings, may_differ):
                raise ValueError(
                    f"run folder {self.folder} belongs to another config: {difference}; "
                    "choose another --out"
                )
        elif any(entry.name != ".lock" for entry in self.folder.iterdir()):
            raise ValueError(
                f"folder {self.folder} has files but no {SETTINGS}, so it is not a run folder; "
                "choose another --out"
            )

    def start(self, files: Mapping[str, str] | None = None) -> None:
        """Write the settings: from here on the folder belongs to them. ``files`` are further texts
        that describe the run, by the names of their files."""
        self.save_text(SETTINGS, to_toml({"format": FORMAT, **self._settings}))
        for name, text in (files or {}).items():
            self.save_text(name, text)

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._events is not None:
            self._events.close()
        if not (self.folder / SETTINGS).exists():
            # the run was never started: leave no trace
            (self.folder / ".lock").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        self._lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def checkpoint(self) -> dict[str, Any] | None:
        """The state that was saved last, or None."""
        import torch

        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # torch raises many kinds for a damaged file
            raise ValueError(
                f"cannot read {path} ({type(error).__name__}); remove it to start this run again"
            ) from None
        return state

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Write checkpoint.pt; the one before stays until this one is complete."""
        import torch

        self._write("checkpoint.pt", lambda file: torch.save(state, file))

    def save_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Write metrics.csv anew, from all rows."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self.save_text("metrics.csv", text.getvalue())

    def append_lines(self, name: str, lines: list[str]) -> None:
        """Add lines to the end of a file."""
        path = self.folder / name
        try:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ValueError(f"cannot write {path}: {error.strerror}") from error

    def truncate_lines(self, name: str, count: int) -> None:
        """Keep only the first lines of a file, if it is there."""
        path = self.folder / name
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            self.save_text(name, "".join(lines[:count]))

    def save_event(self, row: dict[str, Any]) -> None:
        """Write one row of metrics for TensorBoard, if that is installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:  # an extra
            return
        epoch = int(row["epoch"])
        if self._events is None:
            # what an interrupted process wrote from this epoch on is void
            self._events = SummaryWriter(str(self.folder), purge_step=epoch)
        for name, value in row.items():
            if name != "epoch" and value is not None:
                self._events.add_scalar(name, value, epoch)
        self._events.flush()

    def save_weights(self, model: "nn.Module") -> None:
        """Write model.safetensors."""
        content = weights_as_bytes(model)
        self._write("model.safetensors", lambda file: file.write(content))

    def save_text(self, name: str, text: str) -> None:
        """Write a text file of the run."""
        self._write(name, text)

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run, or None."""
        path = self.folder / "result.json"
        return read_json(path) if path.exists() else None

    def save_result(self, result: dict[str, Any]) -> None:
        """Write result.json: the run is finished."""
        self.save_text("result.json", json.dumps(result, indent=2) + "\n")

    def _write(self, name: str, content: str | Callable[[BinaryIO], object]) -> None:
        try:
            write_whole(self.folder / name, content)
        except (OSError, RuntimeError) as error:  # torch.save wraps a full disk in RuntimeError
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise ValueError(f"cannot write {self.folder / name}: {reason}") from error


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run folder, as the run was given them."""
    path = folder / SETTINGS
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {SETTINGS}")
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}); choose another folder") from None
    if settings.pop("format", 1) != FORMAT:
        raise ValueError(
            f"run folder {folder} was made by another version of transformable, whose settings "
            "this one cannot read; choose another folder"
        )
    return settings


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that a run has written, such as result.json."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except ValueError:
        raise ValueError(f"{path} is not JSON; remove it to finish this run again") from None


def first_difference(
    there: Mapping[str, Any], here: Mapping[str, Any], may_differ: Collection[str] = ()
) -> str | None:
    """The first setting with two different values, in words."""
    there, here = flat_settings(there), flat_settings(here)
    for name in {**there, **here}:
        before, now = there.get(name, "not given"), here.get(name, "not given")
        if name not in may_differ and before != now:
            return f"{name} is {before} there and {now} here"
    return None


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings with those of inner sections by their full names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
