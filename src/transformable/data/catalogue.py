"""Datasets by name."""

import difflib
import os
from pathlib import Path

from transformable.data import arrays, cifar, digits, folder
from transformable.data.dataset import Dataset, Info

__all__ = ["info", "load"]

_KNOWN = ("digits", "cifar10", "cifar100", "folder:PATH", "npz:PATH")


def info(spec: str, data_dir: str | Path | None = None) -> Info:
    """What a network must know of a dataset, without reading a pixel.

    >>> info("cifar10").input_shape, info("cifar10:16").input_shape
    ((3, 32, 32), (3, 16, 16))
    """
    kind, path = _parse(spec)
    if kind == "digits":
        return digits.info()
    if kind == "folder":
        return folder.info(path)
    if kind == "npz":
        return arrays.info(path)
    return cifar.info(kind, cifar.size(path))


def load(
    spec: str,
    data_dir: str | Path | None = None,
    *,
    validation: float = 0.1,
    seed: int = 0,
    download: bool = False,
    workers: int = 2,
) -> Dataset:
    """A dataset, `validation` of its training part set aside by `seed`.

    CIFAR is looked for in `data_dir`, by default $TRANSFORMABLE_DATA or ~/.cache/transformable,
    and fetched there with `download`; a size, as in cifar10:16, is what its images are averaged to.
    `workers` processes decode the photos of a folder.

    >>> digits = load("digits", validation=0.2)
    >>> len(digits.train), len(digits.validation), len(digits.test)
    (1150, 288, 359)
    """
    if not 0 <= validation < 1:
        raise ValueError(f"validation {validation} is impossible; give 0 or more and less than 1")
    kind, path = _parse(spec)
    if kind == "digits":
        return digits.load(validation=validation, seed=seed)
    if kind == "folder":
        return folder.load(path, validation=validation, seed=seed, workers=workers)
    if kind == "npz":
        return arrays.load(path, validation=validation, seed=seed)
    return cifar.load(
        kind,
        _directory(data_dir),
        size=cifar.size(path),
        validation=validation,
        seed=seed,
        download=download,
    )


def _parse(spec: str) -> tuple[str, Path]:
    kind, colon, path = spec.partition(":")
    if f"{kind}:PATH" in _KNOWN and path:
        return kind, Path(path).expanduser()
    if kind in _KNOWN and (not colon or (kind in cifar.SETS and path)):
        return kind, Path(path)
    near = difflib.get_close_matches(spec, _KNOWN, n=1, cutoff=0.5)
    guess = f"did you mean {near[0]!r}? " if near else ""
    raise ValueError(f"unknown dataset {spec!r}; {guess}known: {', '.join(_KNOWN)}")


def _directory(data_dir: str | Path | None) -> Path:
    default = os.environ.get("TRANSFORMABLE_DATA") or "~/.cache/transformable"
    return Path(default if data_dir is None else data_dir).expanduser()
