"""Datasets by name."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..settings import VALIDATION
from ..spelling import nearest
from . import arrays, cifar, digits, folder
from .dataset import Dataset, Info
from .photos import SIZE
from .tensors import Values, per_channel

__all__ = ["info", "load", "training_images"]

_KNOWN = ("digits", "cifar10", "cifar100", "folder:PATH", "npz:PATH")


def info(spec: str, data_dir: str | Path | None = None, *, image_size: int | None = None) -> Info:
    """The size of a dataset's images, its classes and so on, without reading a pixel.

    >>> info("cifar10").input_shape, info("cifar10:16").input_shape
    ((3, 32, 32), (3, 16, 16))
    """
    kind, argument = _parse(spec)
    size = _photo_size(spec, kind, image_size)
    if kind == "digits":
        return digits.info()
    if kind == "folder":
        return folder.info(Path(argument).expanduser(), size)
    if kind == "npz":
        return arrays.info(Path(argument).expanduser())
    return cifar.info(kind, cifar.image_size(argument))


def training_images(spec: str) -> int:
    """About how many training images a dataset has, held-out ones among them; no pixel is read.

    >>> training_images("digits"), training_images("cifar10:16")
    (1438, 50000)
    """
    kind, argument = _parse(spec)
    if kind == "folder":
        return folder.training_images(Path(argument).expanduser())
    if kind == "npz":
        return arrays.training_images(Path(argument).expanduser())
    return digits.TRAINING_IMAGES if kind == "digits" else cifar.TRAINING_IMAGES


def load(
    spec: str,
    data_dir: str | Path | None = None,
    *,
    validation: float = VALIDATION,
    seed: int = 0,
    download: bool = False,
    workers: int = 2,
    image_size: int | None = None,
    mean: Values | None = None,
    std: Values | None = None,
) -> Dataset:
    """Load a dataset; ``seed`` selects the fraction ``validation`` of the training images.

    CIFAR is looked for in ``data_dir``, by default $TRANSFORMABLE_DATA or ~/.cache/transformable,
    and fetched there with ``download``; a size, as in cifar10:16, is what its images are averaged
    to. ``workers`` processes decode the photos of a folder, to ``image_size`` (224) pixels a side.

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
        raise ValueError(f"validation must be in [0, 1), not {validation}")
    if (mean is None) != (std is None):
        raise ValueError(f"{'mean' if mean is None else 'std'} is missing; give mean and std")
    kind, argument = _parse(spec)
    path = Path(argument).expanduser()
    photo_size = _photo_size(spec, kind, image_size)
    if kind == "digits":
        dataset = digits.load(validation=validation, seed=seed)
    elif kind == "folder":
        dataset = folder.load(
            path, validation=validation, seed=seed, workers=workers, size=photo_size
        )
    elif kind == "npz":
        dataset = arrays.load(path, validation=validation, seed=seed)
    else:
        default = os.environ.get("TRANSFORMABLE_DATA") or "~/.cache/transformable"
        directory = Path(default if data_dir is None else data_dir).expanduser()
        size = cifar.image_size(argument)
        dataset = cifar.load(
            kind, directory, size=size, validation=validation, seed=seed, download=download
        )
    return dataset if mean is None or std is None else _normalise_with(mean, std, dataset)


def _photo_size(spec: str, kind: str, given: int | None) -> int:
    """The side of the images of a folder; the other datasets have a size of their own."""
    if given is None:
        return SIZE
    if kind != "folder":
        other = "; use cifar10:SIZE" if kind in cifar.SETS else ""
        raise ValueError(f"image size {given} is for folder:PATH, not for {spec}{other}")
    if given < 1:
        raise ValueError(f"image size must be 1 or more, not {given}")
    return given


def _normalise_with(mean: Values, std: Values, dataset: Dataset) -> Dataset:
    """The same images, normalised with another mean and std, given in the units of ``load``."""
    info = dataset.info
    used = {}
    for name, given in (("mean", mean), ("std", std)):
        values = per_channel(name, given, info.input_shape[0])
        for value in values if info.pixels else ():
            if not 0 <= value <= 1:
                raise ValueError(
                    f"{name} {value:g} is not for pixels of 0 to 1; give it as a fraction of the "
                    "pixel range (for pixels of 0 to 255, divide it by 255)"
                )
        used[name] = tuple(value * (255 if info.pixels else 1) for value in values)

    own: dict[str, Any] = {name: torch.tensor(values) for name, values in used.items()}
    return replace(
        dataset,
        info=replace(info, mean=used["mean"], std=used["std"]),
        train=replace(dataset.train, **own),
        validation=replace(dataset.validation, **own),
        test=replace(dataset.test, **own),
    )


def _parse(spec: str) -> tuple[str, str]:
    """The kind of dataset and what follows the colon: a path, or the size of CIFAR images."""
    kind, colon, argument = spec.partition(":")
    takes_argument = f"{kind}:PATH" in _KNOWN or kind in cifar.SETS
    if (takes_argument and argument) or (kind in _KNOWN and not colon):
        return kind, argument
    hint = nearest(spec, _KNOWN)
    known = "" if hint.startswith("known") else f" known: {', '.join(_KNOWN)}"
    raise ValueError(f"unknown dataset {spec!r}; {hint}{known}")
