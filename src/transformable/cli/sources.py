"""Whether the files that a command names are still those that its run folder was started with.

The settings of a run hold the names of these files, not what is in them.
"""

import hashlib
import json
import warnings
from pathlib import Path

from ..runs.run_folder import read_json
from .options import RunOptions

__all__ = ["refuse_other_network", "sources_file", "warn_of_other_sources"]

SOURCES = "sources.json"
"""In a run folder: the SHA-256 of the files, by the option that names them."""


def sources_file(options: RunOptions) -> dict[str, str]:
    """The name and the text of the file that remembers what the files of the options are now."""
    found = {option: _sha256(path) for option, path in _paths(options).items()}
    return {SOURCES: json.dumps(found) + "\n"} if found else {}


def refuse_other_network(folder: Path, options: RunOptions) -> None:
    """Refuse to continue a run whose network has changed; other images are detected when they are
    loaded, by their own fingerprint."""
    if path := _changed(folder, options).get("model"):
        raise ValueError(
            f"{path} has changed since run folder {folder} was started; restore it, or choose "
            "another --out"
        )


def warn_of_other_sources(folder: Path, options: RunOptions) -> None:
    """Warn if a finished run is shown whose network or images have changed since."""
    words = {"model": "network", "data": "images"}
    for option, path in _changed(folder, options).items():
        warnings.warn(
            f"{path} has changed since this run; this is the result of the earlier {words[option]}",
            stacklevel=2,
        )


def _changed(folder: Path, options: RunOptions) -> dict[str, Path]:
    """The files that have changed since the run was started; a missing file is not compared."""
    kept = folder / SOURCES
    there = read_json(kept) if kept.is_file() else {}
    paths = _paths(options)
    return {
        option: path
        for option, path in paths.items()
        if there.get(option) not in (None, _sha256(path))
    }


def _paths(options: RunOptions) -> dict[str, Path]:
    """The files by the option that names them: the network's own, and images in one file."""
    model, _, _ = options.model.rpartition(":")
    kind, _, data = options.data.partition(":")
    named = {"model": model if model.endswith(".py") else "", "data": data if kind == "npz" else ""}
    paths = {option: Path(name).expanduser() for option, name in named.items() if name}
    return {option: path for option, path in paths.items() if path.is_file()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
