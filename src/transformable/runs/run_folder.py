"""The run folder: the config, the metrics, the checkpoint, the final weights and the result."""

import contextlib
import csv
import fcntl
import io
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from ..atomic_files import weights_as_bytes, write_whole
from ..blueprint import BLUEPRINT_FILE, Blueprint
from ..cli.arguments import Job
from ..settings import values
from ..shape import Shape
from .config_file import read_config, write_config

if TYPE_CHECKING:
    from torch import nn

    from ..tracing.space import Space

__all__ = ["Run", "default_folder", "free_of"]

# These do not change what comes out, so a run may go on with other values of them.
FREE = frozenset(
    {
        "checkpoint_seconds",
        "config",
        "data_dir",
        "device",
        "dry_run",
        "download",
        "json",
        "out",
        "preset",
        "workers",
    }
)


class Run:
    """A folder that one process at a time may write, and that belongs to one config.

    >>> import tempfile
    >>> from transformable.cli.arguments import Train
    >>> folder = tempfile.mkdtemp() + "/run"
    >>> with Run.open(folder, Train(epochs=2)) as run:
    ...     run.begin()
    >>> Run.open(folder, Train(epochs=3))
    Traceback (most recent call last):
    ValueError: ... belongs to another config: epochs is 2 there and 3 here; ...
    """

    def __init__(self, folder: Path, config: Job, lock: IO[str]) -> None:
        self.folder = folder
        self._config = config
        self._lock = lock
        self._events: Any = None

    @classmethod
    def open(cls, folder: str | Path, config: Job, *, wait: bool = False) -> "Run":
        """Make the folder, or take up an earlier run of the same config.

        If another process has it, that is refused, or waited for.
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
        run = cls(folder, config, lock)
        try:
            run._check()
        except ValueError:
            run.close()
            raise
        return run

    def _check(self) -> None:
        path = self.folder / "config.toml"
        if path.exists():
            try:
                there = read_config(path, type(self._config)())
            except ValueError as error:
                raise ValueError(
                    f"run folder {self.folder} belongs to another command ({error}); "
                    "choose another --out"
                ) from None
            _check_same(self.folder, there, self._config)
        elif any(entry.name != ".lock" for entry in self.folder.iterdir()):
            raise ValueError(
                f"folder {self.folder} has files but no config.toml, so it is not a run folder; "
                "choose another --out"
            )

    def begin(self) -> None:
        """From here on the folder belongs to the config."""
        grown = getattr(self._config, "grows", None)
        if grown or not (self.folder / "config.toml").exists():
            # how a run was called is not what it is
            config = replace(self._config, json=False, config=None)
            self._write("config.toml", write_config(config))

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._events is not None:
            self._events.close()
        if not (self.folder / "config.toml").exists():
            # nothing came of it: leave no trace
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
        """Keep the state; the one before stays until this one is complete."""
        import torch

        self._write("checkpoint.pt", lambda file: torch.save(state, file))

    def save_metrics(self, rows: list[dict[str, Any]]) -> None:
        """Write metrics.csv anew, from all rows."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        self._write("metrics.csv", text.getvalue())

    def append(self, name: str, lines: list[str]) -> None:
        """Add lines to a file."""
        path = self.folder / name
        try:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ValueError(f"cannot write {path}: {error.strerror}") from error

    def cut(self, name: str, count: int) -> None:
        """Keep the first lines of a file, if it is there."""
        path = self.folder / name
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            self._write(name, "".join(lines[:count]))

    def save_event(self, row: dict[str, Any]) -> None:
        """Tell TensorBoard of one row, if it is installed."""
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

    def save_shape(self, shape: Shape) -> None:
        """Write shape.json."""
        self._write("shape.json", shape.to_json() + "\n")

    def claim(self, fingerprint: dict[str, Any]) -> None:
        """The folder belongs to what a call was given; with something else it is refused."""
        path = self.folder / "call.json"
        if path.exists():
            there = json.loads(path.read_text(encoding="utf-8"))
            for name, value in fingerprint.items():
                if there.get(name) != value:
                    raise ValueError(
                        f"run folder {self.folder} belongs to a call with another {name!r}; "
                        "choose another out"
                    )
        self._write("call.json", json.dumps(fingerprint) + "\n")

    def save_candidates(self, space: "Space") -> None:
        """Write candidates.json: the sizes that the distributions are over."""
        sizes = {**space.widths, **space.depths}
        text = json.dumps({name: list(each) for name, each in sizes.items()})
        path = self.folder / "candidates.json"
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"run folder {self.folder} belongs to a search over other sizes; "
                "choose another --out"
            )
        self._write("candidates.json", text)

    def save_recipe(self, recipe: Blueprint) -> None:
        """Write network.json: how the network is built that the weights are for."""
        self._write(BLUEPRINT_FILE, recipe.to_json())

    def result(self) -> dict[str, Any] | None:
        """The result of a finished run, or None."""
        path = self.folder / "result.json"
        if not path.exists():
            return None
        try:
            result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            raise ValueError(f"{path} is not JSON; remove it to finish this run again") from None
        return result

    def save_result(self, result: dict[str, Any]) -> None:
        """Write result.json: the run is finished."""
        self._write("result.json", json.dumps(result, indent=2) + "\n")

    def _write(self, name: str, content: str | Callable[[BinaryIO], object]) -> None:
        try:
            write_whole(self.folder / name, content)
        except (OSError, RuntimeError) as error:  # torch.save wraps a full disk in RuntimeError
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise ValueError(f"cannot write {self.folder / name}: {reason}") from error


def default_folder(config: Job, prefix: str = "") -> Path:
    """Where a run goes when nobody says.

    >>> from transformable.cli.arguments import Train
    >>> str(default_folder(Train(model="nets/mine.py:tiny", data="npz:faces.npz", seed=3)))
    'runs/nets-mine.py-tiny-npz-faces.npz-seed3'
    """
    words = re.sub(r"[^\w.]+", "-", f"{prefix}{config.model}-{config.data}").strip("-.")
    return Path("runs") / f"{words}-seed{config.seed}"


def free_of(config: Job) -> frozenset[str]:
    """What may be another when a run goes on."""
    nothing: frozenset[str] = frozenset()
    return (FREE | getattr(config, "grows", nothing)) - getattr(config, "binds", nothing)


def _check_same(folder: Path, old: Job, new: Job) -> None:
    (before, now) = (values(old), values(new))
    free = free_of(new)
    for name in {**before, **now}:
        there, here = (config.get(name, "not given") for config in (before, now))
        if name not in free and there != here:
            raise ValueError(
                f"run folder {folder} belongs to another config: {name} is {there} there "
                f"and {here} here; choose another --out"
            )
