"""CIFAR-10 and CIFAR-100 from the official files: binary, pickled, or the archive."""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from . import unpickle
from .dataset import Dataset, Info
from .download import check, fetch
from .tensors import from_tensors

__all__ = ["SETS", "TRAINING_IMAGES", "image_size", "info", "load"]

SIZE = 32
TRAINING_IMAGES = 50_000
_PIXELS = 3 * SIZE * SIZE


@dataclass(frozen=True, kw_only=True)
class Cifar:
    """The files of one of the two sets; the label in use is the last byte before the pixels."""

    classes: tuple[str, ...]
    train: tuple[str, ...]
    """Names of the pickled files; the binary ones end with .bin."""
    test: str
    records: Mapping[str, int]
    """The number of images in each file."""
    label_bytes: int
    label_key: str
    binary_folder: str
    python_folder: str
    archive: str
    sha256: str
    url: str
    mean: tuple[float, ...]
    """By channel, in units of 0 to 255."""
    std: tuple[float, ...]


_CIFAR10_CLASSES = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))

SETS = {
    "cifar10": Cifar(
        classes=tuple(_CIFAR10_CLASSES.split()),
        train=_BATCHES,
        test="test_batch",
        records=dict.fromkeys((*_BATCHES, "test_batch"), 10_000),
        label_bytes=1,
        label_key="labels",
        binary_folder="cifar-10-batches-bin",
        python_folder="cifar-10-batches-py",
        archive="cifar-10-binary.tar.gz",
        sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        mean=(125.3, 123.0, 113.9),
        std=(63.0, 62.1, 66.7),
    ),
    "cifar100": Cifar(
        classes=tuple(_CIFAR100_CLASSES.split()),
        train=("train",),
        test="test",
        records={"train": 50_000, "test": 10_000},
        label_bytes=2,
        label_key="fine_labels",
        binary_folder="cifar-100-binary",
        python_folder="cifar-100-python",
        archive="cifar-100-binary.tar.gz",
        sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
        mean=(129.3, 124.1, 112.4),
        std=(68.2, 65.4, 70.4),
    ),
}

Arrays = tuple[NDArray[np.uint8], NDArray[Any]]
"""Images (N, 3072) and labels (N,) of one file."""


def image_size(text: str) -> int:
    """The size of the images, from what follows the name of the dataset."""
    if text not in ("", "4", "8", "16"):
        raise ValueError(f"the images of CIFAR cannot be averaged to {text!r}; give 4, 8, 16")
    return int(text or SIZE)


def info(name: str, size: int = SIZE) -> Info:
    classes = SETS[name].classes
    return Info(
        name=name if size == SIZE else f"{name}:{size}",
        input_shape=(3, size, size),
        num_classes=len(classes),
        classes=classes,
    )


def load(
    name: str, directory: Path, *, size: int, validation: float, seed: int, download: bool
) -> Dataset:
    cifar = SETS[name]
    files = _read(name, cifar, directory, download)
    return from_tensors(
        _join([files[file] for file in cifar.train], size),
        _join([files[cifar.test]], size),
        validation=validation,
        seed=seed,
        name=info(name, size).name,
        classes=cifar.classes,
        # measured if the images are averaged, which narrows the spread
        mean=cifar.mean if size == SIZE else None,
        std=cifar.std if size == SIZE else None,
        padding=size // 8,
        flips=True,
    )


def _read(name: str, cifar: Cifar, directory: Path, download: bool) -> dict[str, Arrays]:
    forms = ((cifar.binary_folder, ".bin", _read_binary), (cifar.python_folder, "", _read_pickle))
    for own_folder, suffix, read in forms:
        for folder in (directory, directory / own_folder):
            paths = {file: folder / f"{file}{suffix}" for file in cifar.records}
            if any(path.is_file() for path in paths.values()):
                return {file: read(cifar, file, _existing(path)) for file, path in paths.items()}
    archive = directory / cifar.archive
    if not archive.is_file():
        if not download:
            raise ValueError(
                f"{name} is not in {str(directory)!r}; "
                "fetch it there with --download or say with --data-dir where it is"
            )
        fetch(cifar.url, archive, cifar.sha256)
    return _read_archive(cifar, archive)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path} is missing, though other files of the set are there")
    return path


def _read_binary(cifar: Cifar, file: str, path: Path) -> Arrays:
    with path.open("rb") as content:
        return _read_records(cifar, file, path, path.stat().st_size, content)


def _read_records(cifar: Cifar, file: str, path: Path, size: int, content: IO[bytes]) -> Arrays:
    count = cifar.records[file]
    expected = count * (cifar.label_bytes + _PIXELS)
    if size != expected:
        raise ValueError(
            f"{path} should have {expected} bytes, found {size}; delete it and fetch it again"
        )
    records = np.frombuffer(content.read(), dtype=np.uint8).reshape(count, -1)
    labels = records[:, cifar.label_bytes - 1]
    return records[:, cifar.label_bytes :], _check_labels(cifar, path, labels)


def _read_pickle(cifar: Cifar, file: str, path: Path) -> Arrays:
    content = unpickle.read(path)
    images, labels = content.get("data"), np.asarray(content.get(cifar.label_key, ()))
    count = cifar.records[file]
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8:
        raise ValueError(f"{path} has no 'data' of uint8 pixels")
    if images.shape != (count, _PIXELS) or labels.shape != (count,):
        raise ValueError(
            f"{path} should hold {(count, _PIXELS)} pixels and {(count,)} {cifar.label_key}, "
            f"found {images.shape} and {labels.shape}"
        )
    return images, _check_labels(cifar, path, labels)


def _read_archive(cifar: Cifar, path: Path) -> dict[str, Arrays]:
    check(path, cifar.sha256)
    wanted = {f"{cifar.binary_folder}/{file}.bin": file for file in cifar.records}
    found: dict[str, Arrays] = {}
    # one pass that takes members by name; nothing in the archive is written to disk
    with tarfile.open(path, mode="r|gz") as archive:
        for member in archive:
            file = wanted.get(member.name)
            content = archive.extractfile(member) if file and member.isreg() else None
            if file and content:
                where = path / member.name
                found[file] = _read_records(cifar, file, where, member.size, content)
    missing = [name for name, file in wanted.items() if file not in found]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}")
    return found


def _check_labels(cifar: Cifar, path: Path, labels: NDArray[Any]) -> NDArray[Any]:
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{path} has labels of {labels.dtype}; they should be integers")
    low, high, count = int(labels.min()), int(labels.max()), len(cifar.classes)
    if low < 0 or high >= count:
        raise ValueError(
            f"{path} holds the label {low if low < 0 else high}; there are {count} classes"
        )
    return labels


def _join(files: list[Arrays], size: int) -> tuple[Tensor, Tensor]:
    pixels = np.concatenate([images for images, _ in files]).reshape(-1, 3, SIZE, SIZE)
    labels = np.concatenate([labels for _, labels in files]).astype(np.int64)
    images = torch.from_numpy(pixels)
    if size != SIZE:
        images = F.adaptive_avg_pool2d(images.float(), size).round().to(torch.uint8)
    return images, torch.from_numpy(labels)
