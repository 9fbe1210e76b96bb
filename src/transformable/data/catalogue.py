"""Datasets by name."""

import os
from pathlib import Path

from ..spelling import nearest
from . import arrays, cifar, digits, folder
from .dataset import Dataset, Info
from .normalisation import Values

__all__ = ["info", "load"]

_KNOWN = ("digits", "cifar10", "cifar100", "folder:PATH", "npz:PATH")


def info(spec: str, data_dir: str | Path | None = None) -> Info:
    """What a network must know of a dataset, without reading a pixel.

    >>> info("cifar10").input_shape, info("cifar10:16").input_shape
    ((3, 32, 32), (3, 16, 16))
    """
    kind, argument = _parse(spec)
    if kind == "digits":
        return digits.info()
    if kind == "folder":
        return folder.info(Path(argument).expanduser())
    if kind == "npz":
        return arrays.info(Path(argument).expanduser())
    return cifar.info(kind, cifar.image_size(argument))


def load(
    spec: str,
    data_dir: str | Path | None = None,
    *,
    validation: float = 0.1,
    seed: int = 0,
    download: bool = False,
    workers: int = 2,
    mean: Values | None = None,
    std: Values | None = None,
) -> Dataset:
    """Load a dataset; ``seed`` selects the fraction ``validation`` of the training images.

    CIFAR is looked for in ``data_dir``, by default $TRANSFORMABLE_DATA or ~/.cache/transformable,
    and fetched there with ``download``; a size, as in cifar10:16, is what its images are averaged
    to. ``workers`` processes decode the photos of a folder.

    ``mean`` and ``std`` are what the network's own training normalised with, for pixels of 0 to 1
    as torchvision's Normalize takes them: one number per channel, or one for all. Float images of
    an npz file are normalised with them as they are. Without them, the dataset's own are used.

    >>> digits = load("digits", validation=0.2)
    >>> len(digits.train), len(digits.validation), len(digits.test)
    (1150, 288, 359)
    >>> load("digits", mean=0.5, std=0.25).info.mean  # in units of 0 to 255
    (127.5,)
    """
    if not 0 <= validation < 1:
        raise ValueError(f"validation {validation} is impossible; give 0 or more and less than 1")
    kind, argument = _parse(spec)
    path = Path(argument).expanduser()
    if kind == "digits":
        return digits.load(validation=validation, seed=seed, mean=mean, std=std)
    if kind == "folder":
        return folder.load(
            path, validation=validation, seed=seed, workers=workers, mean=mean, std=std
        )
    if kind == "npz":
        return arrays.load(path, validation=validation, seed=seed, mean=mean, std=std)
    return cifar.load(
        kind,
        _directory(data_dir),
        size=cifar.image_size(argument),
        validation=validation,
        seed=seed,
        download=download,
        mean=mean,
        std=std,
    )


def _parse(spec: str) -> tuple[str, str]:
    """The kind of dataset and what stands behind the colon: a path, or the size of CIFAR images."""
    kind, colon, argument = spec.partition(":")
    if f"{kind}:PATH" in _KNOWN and argument:
        return kind, argument
    if kind in _KNOWN and (not colon or (kind in cifar.SETS and argument)):
        return kind, argument
    hint = nearest(spec, _KNOWN)
    known = "" if hint.startswith("known") else f" known: {', '.join(_KNOWN)}"
    raise ValueError(f"unknown dataset {spec!r}; {hint}{known}")


def _directory(data_dir: str | Path | None) -> Path:
    default = os.environ.get("TRANSFORMABLE_DATA") or "~/.cache/transformable"
    return Path(default if data_dir is None else data_dir).expanduser()
