"""The run folder: the settings, the metrics, the checkpoint, the final weights and the result."""

import contextlib
import csv
import io
import json
import os
import re
import tomllib
import weakref
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from .. import __version__
from ..atomic_files import is_leftover, remove_leftovers, weights_as_bytes, write_whole
from .checkpoint_file import CHECKPOINT, read_checkpoint, write_checkpoint
from .compare_settings import first_difference
from .lock import LOCK, lock_folder
from .toml_text import to_toml

if TYPE_CHECKING:
    from torch import nn

__all__ = [
    "SETTINGS",
    "Run",
    "check_folder",
    "check_version",
    "other_inputs",
    "read_json",
    "read_settings",
]

SETTINGS = "config.toml"
INPUTS = "inputs.json"
"""Fingerprints of what a run is made from."""
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
        run = cls(folder, settings, lock_folder(folder, wait=wait))
        try:
            run._check(may_differ)
            remove_leftovers(folder)
        except BaseException:
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
        else:
            check_folder(self.folder)

    def start(
        self,
        files: Mapping[str, str] | None = None,
        *,
        inputs: Mapping[str, str] | None = None,
    ) -> None:
        """Write the settings: from here on the folder belongs to them. ``files`` are further texts
        that describe the run, by the names of their files.

        ``inputs`` are fingerprints by words for what they are of, such as "images"; a run that was
        started with others is refused.
        """
        if inputs:
            for what in other_inputs(self.folder, inputs):
                raise ValueError(
                    f"the {what} differ from those that run folder {self.folder} was started with; "
                    "restore them, or choose another --out"
                )
            known = {name: value for name, value in inputs.items() if value}
            files = {**(files or {}), INPUTS: json.dumps({**_inputs(self.folder), **known}) + "\n"}
        made = {"format": FORMAT, "version": __version__}
        self.save_text(SETTINGS, to_toml({**made, **self._settings}))
        for name, text in (files or {}).items():
            self.save_text(name, text)

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._events is not None:
            self._events.close()
        if not (self.folder / SETTINGS).exists():
            # the run was never started: leave no trace
            with contextlib.suppress(OSError):
                (self.folder / LOCK).unlink(missing_ok=True)
                self.folder.rmdir()
        self._lock.close()

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def checkpoint(self) -> dict[str, Any] | None:
        """The state that was saved last, or None."""
        return read_checkpoint(self.folder)

    def save_checkpoint(self, state: dict[str, Any]) -> None:
        """Write checkpoint.pt; the one before stays until this one is complete, and is kept."""
        try:
            write_checkpoint(self.folder, state)
        except OSError as error:
            raise ValueError(
                f"cannot write {self.folder / CHECKPOINT}: {error.strerror}; the checkpoint before "
                "it is whole: when there is room, run the same command again to continue"
            ) from error

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
        except OSError as error:
            raise ValueError(f"cannot write {self.folder / name}: {error.strerror}") from error


def check_folder(folder: Path) -> None:
    """Refuse a place where no run folder can be; nothing is written."""
    first = next(path for path in (folder, *folder.parents) if path.exists())
    if not first.is_dir():
        raise ValueError(
            f"cannot write to run folder {folder}: it, or a folder around it, is a file; choose "
            "another --out"
        )
    if first != folder or (folder / SETTINGS).exists():
        return
    if any(e.name != LOCK and not is_leftover(e) for e in folder.iterdir()):
        raise ValueError(
            f"folder {folder} has files but no {SETTINGS}, so it is not a run folder; "
            "choose another --out"
        )


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings of a run folder, as the run was given them."""
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} is not a run folder: it has no {SETTINGS}")
    settings = check_version(folder)
    settings.pop("version", None)
    if settings.pop("format", 1) != FORMAT:
        raise ValueError(
            f"run folder {folder} was made by another version of transformable, whose settings "
            "this one cannot read; choose another folder"
        )
    return settings


def check_version(folder: Path) -> dict[str, Any]:
    """Refuse a run folder that a version of another series has made; returns what its config.toml
    holds. A folder without one, such as an exported network, belongs to no version."""
    path = folder / SETTINGS
    if not path.is_file():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read ({error}); choose another folder") from None
    made_by = str(content.get("version", __version__))  # 0.1 wrote none
    if _series(made_by) != _series(__version__):
        raise ValueError(
            f"run folder {folder} was made by transformable {made_by}, and this is {__version__}; "
            f"install transformable {made_by} to use it, or choose another folder"
        )
    return content


def _series(version: str) -> list[str]:
    """What versions have in common that read each other's run folders: the major number and, while
    that is 0, the minor one.

    >>> _series("1.4.2"), _series("0.2.0.dev0")
    (['1'], ['0', '2'])
    """
    numbers = re.findall(r"\d+", version)
    return numbers[:2] if numbers[:1] == ["0"] else numbers[:1]


def other_inputs(folder: Path, inputs: Mapping[str, str]) -> list[str]:
    """The inputs whose fingerprint differs from that of the run in a folder; one that is empty, or
    that the run lacks, is not compared."""
    there = _inputs(folder)
    return [name for name, value in inputs.items() if value and there.get(name, value) != value]


def _inputs(folder: Path) -> dict[str, Any]:
    path = folder / INPUTS
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that a run has written, such as result.json."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]
    except ValueError:
        raise ValueError(f"{path} is not JSON; remove it to finish this run again") from None
