"""A user's own dataset in one npz file: x_train, y_train, x_test, y_test."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .dataset import Dataset, Info
from .tensors import count_classes, from_tensors

__all__ = ["info", "load", "training_images"]

_KEYS = ("x_train", "y_train", "x_test", "y_test")


def info(path: Path) -> Info:
    """Read the header of x_train and the labels, but no pixel."""
    with _open(path) as archive:
        shape = _shape(archive, "x_train")
        train, test = (_labels(archive, name) for name in ("y_train", "y_test"))
        num_classes = count_classes(train, test, "y_train", "y_test")
        if len(shape) == 4 and _channels_last(shape):
            shape = (shape[0], shape[3], *shape[1:3])
        elif len(shape) == 3:
            shape = (shape[0], 1, *shape[1:])
        elif len(shape) != 4:
            raise ValueError(f"x_train has shape {shape}; give (N, C, H, W) or (N, H, W)")
    return Info(
        name=f"npz:{path}",
        input_shape=shape[1:],
        num_classes=num_classes,
        classes=tuple(str(label) for label in range(num_classes)),
    )


def training_images(path: Path) -> int:
    with _open(path) as archive:
        return next(iter(_shape(archive, "x_train")), 0)


def load(path: Path, *, validation: float, seed: int) -> Dataset:
    with _open(path) as archive:
        return from_tensors(
            (_images(archive, "x_train"), _labels(archive, "y_train")),
            (_images(archive, "x_test"), _labels(archive, "y_test")),
            validation=validation,
            seed=seed,
            name=f"npz:{path}",
        )


@contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; give the npz file, or folder:PATH for photos")
    if not path.is_file():
        raise ValueError(f"npz file {str(path)!r} does not exist")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            missing = [key for key in _KEYS if f"{key}.npy" not in members]
            if missing:
                raise ValueError(f"{', '.join(missing)} not in the file; it needs {_KEYS}")
            yield archive
    except Exception as error:  # a damaged archive raises anything at all
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path}: {reason}") from error


def _read(archive: zipfile.ZipFile, key: str) -> NDArray[Any]:
    with archive.open(f"{key}.npy") as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _shape(archive: zipfile.ZipFile, key: str) -> tuple[int, ...]:
    with archive.open(f"{key}.npy") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            return np.lib.format.read_array_header_1_0(file)[0]
        return np.lib.format.read_array_header_2_0(file)[0]


def _images(archive: zipfile.ZipFile, key: str) -> Tensor:
    array = _read(archive, key)
    if array.dtype.kind == "f":
        array = array.astype(np.float32)
    elif array.dtype != np.uint8:
        raise ValueError(f"{key} is {array.dtype}; give uint8 or float32")
    if array.ndim == 4 and _channels_last(array.shape):
        array = array.transpose(0, 3, 1, 2)
    return torch.from_numpy(array)


def _labels(archive: zipfile.ZipFile, key: str) -> Tensor:
    array = _read(archive, key)
    if not array.size:
        raise ValueError(f"{key} holds no labels; give one or more")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{key} is {array.dtype} of shape {array.shape}; give N integers")
    return torch.from_numpy(array.astype(np.int64))


def _channels_last(shape: tuple[int, ...]) -> bool:
    # no image is four pixels high, so a short last axis behind a long one holds the channels
    return shape[3] <= 4 < shape[1]
