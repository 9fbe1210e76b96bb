"""Photos in one folder per class, decoded by worker processes."""

import ctypes
import math
import os
from dataclasses import dataclass, field, replace
from multiprocessing import RawArray
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ..seeds import generator
from .augment import normalise
from .damaged_photos import DamagedPhotos
from .dataset import Batches, Dataset, Info, Split
from .fingerprint import of_photos
from .photos import SIZE, SUFFIXES, DamagedPhotoError, decode, evaluation_view, training_view
from .stratify import stratified
from .workers import ignore_stop_signals, loaded

__all__ = ["PhotoSplit", "info", "load", "training_images"]

TEST_SHARE = 0.2  # of a folder that has no folder val
PREFETCHED = 2  # batches that each worker decodes ahead
DECODED = (
    4  # photos before their views are cut: what follows is quicker when it is repeated at once
)

# ImageNet's, in units of 0 to 255
_MEAN = torch.tensor((0.485, 0.456, 0.406)) * 255
_STD = torch.tensor((0.229, 0.224, 0.225)) * 255


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PhotoSplit(Split):
    """A ``Split`` whose images are files."""

    paths: tuple[Path, ...]
    mean: Tensor
    """The mean of each channel, in units of 0 to 255."""
    std: Tensor
    workers: int
    """Processes that decode; with 0 this process does. The images do not depend on it."""
    size: int = SIZE
    """Height and width of the images."""
    damaged: DamagedPhotos = field(default_factory=lambda: DamagedPhotos(0))
    """The damaged photos of the whole folder."""

    def subset(self, indexes: Tensor) -> Self:
        paths = tuple(self.paths[index] for index in indexes.tolist())
        return replace(self, paths=paths, labels=self.labels[indexes])

    def _augmented(self, plan: dict[int, Tensor], seed: int, epoch: int, own: slice) -> Batches:
        return self._batches([indexes[own] for indexes in plan.values()], (seed, epoch))

    def _plain(self, plan: list[Tensor]) -> Batches:
        return self._batches(plan, None)

    def _batches(self, plan: list[Tensor], epoch: tuple[int, int] | None) -> Batches:
        if not plan:
            return
        workers = min(self.workers, _processors(), len(plan))
        # one place for the batch that is normalised and one for each that is decoded meanwhile
        places = 1 + PREFETCHED * workers
        views = _Views(
            self.paths, self.size, epoch, places, max(map(len, plan)), self.damaged.allowed
        )
        loader = DataLoader(
            views,
            batch_sampler=[[n % places, *indexes.tolist()] for n, indexes in enumerate(plan)],
            collate_fn=_unchanged,
            num_workers=workers,
            worker_init_fn=ignore_stop_signals,
            prefetch_factor=PREFETCHED if workers else None,
            # its own, because a loader otherwise draws from the global one at every epoch, and a
            # run resumed in the middle of an epoch would draw once more than one that was not
            generator=torch.Generator(),
        )
        for n, decoded in enumerate(loaded(loader)):
            if isinstance(decoded, str):
                raise ValueError(decoded)
            indexes, damaged = decoded
            self.damaged.add(damaged)
            if not indexes:
                continue
            x = torch.from_numpy(views.place(n % places)[: len(indexes)]).permute(0, 3, 1, 2)
            yield normalise(x, self.mean, self.std), self.labels[indexes]


Decoded = tuple[list[int], list[str]]
"""Which photos a batch has, and the messages about damaged ones."""


def _unchanged(decoded: Any) -> Any:
    return decoded


class _Views(TorchDataset[Decoded | str]):
    """A view of each photo, for training in (seed, epoch) or else for evaluation.

    The views of a batch are written to one of several places in memory that all processes share:
    sending them through a pipe takes a good part of the time of decoding. The array is
    Python's, which knows how little shared memory containers have; torch's tensors do not.

    In the place of a damaged photo, training has the next one in order that is whole; evaluation
    leaves it out. So batches stay a function of their indexes.
    """

    def __init__(
        self,
        paths: tuple[Path, ...],
        size: int,
        epoch: tuple[int, int] | None,
        places: int,
        batch_size: int,
        allowed: int,
    ) -> None:
        self.paths, self.size, self.epoch, self.allowed = paths, size, epoch, allowed
        self._shape = (places, batch_size, size, size, 3)
        self._memory = RawArray(ctypes.c_uint8, math.prod(self._shape))

    def place(self, number: int) -> NDArray[np.uint8]:
        """Memory for the views of a batch, as (N, H, W, C)."""
        places = np.frombuffer(memoryview(self._memory), np.uint8).reshape(self._shape)
        return cast(NDArray[np.uint8], places[number])

    def __getitems__(self, batch: list[int]) -> Decoded | str:
        """Decode photos into a place: its number is the first of ``batch``.

        For a photo that cannot be read, an error message is returned: an exception that crosses
        processes becomes pages of traceback.
        """
        number, *indexes = batch
        place, used, damaged = self.place(number), list[int](), list[str]()
        try:
            for start in range(0, len(indexes), DECODED):
                asked = indexes[start : start + DECODED]
                found = [(index, self._decoded(index, damaged)) for index in asked]
                whole = [(index, *photo) for index, photo in found if photo is not None]
                for index, other, image in whole:
                    place[len(used)] = self._view(index, image)
                    used.append(other)
        except ValueError as error:
            return str(error)
        return used, damaged

    def _decoded(self, index: int, damaged: list[str]) -> tuple[int, Image.Image] | None:
        """The photo, or, if it is damaged, what is taken in its place, with its own index."""
        # more than these in a row are more than may be damaged
        attempts = 1 if self.epoch is None else self.allowed + 2
        for other in range(index, index + attempts):
            try:
                return other % len(self.paths), decode(self.paths[other % len(self.paths)])
            except DamagedPhotoError as error:
                damaged.append(str(error))
        return None

    def _view(self, index: int, image: Image.Image) -> NDArray[np.uint8]:
        if self.epoch is None:
            return evaluation_view(image, self.size)
        return training_view(image, generator("photo", *self.epoch, index), self.size)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def info(path: Path, size: int = SIZE) -> Info:
    classes = _classes(_training_folder(path))
    return Info(
        name=f"folder:{path}",
        input_shape=(3, size, size),
        num_classes=len(classes),
        classes=classes,
        mean=tuple(_MEAN.tolist()),
        std=tuple(_STD.tolist()),
    )


def training_images(path: Path) -> int:
    root = _training_folder(path)
    photos = len(_scan(root, _classes(root), workers=0, size=SIZE))
    return photos if root != path else round((1 - TEST_SHARE) * photos)


def load(path: Path, *, validation: float, seed: int, workers: int, size: int = SIZE) -> Dataset:
    if workers < 0:
        raise ValueError(f"workers must be 0 or more, not {workers}")
    about = info(path, size)
    root = _training_folder(path)
    whole = _scan(root, about.classes, workers, size)
    counts = whole.labels.bincount(minlength=len(about.classes)).tolist()
    for name, count in zip(about.classes, counts, strict=True):
        if not count:
            raise ValueError(f"class folder {str(root / name)!r} holds no images")
    if root == path:
        # the same for every seed: a network of another seed must not have seen the test images
        rest, part = stratified(whole.labels, TEST_SHARE, seed=0)
        whole, test = whole.subset(rest), whole.subset(part)
    else:
        test = _scan(path / "val", about.classes, workers, size)
    damaged = DamagedPhotos(len(whole) + len(test))
    whole, test = replace(whole, damaged=damaged), replace(test, damaged=damaged)
    rest, part = stratified(whole.labels, validation, seed)
    return Dataset(
        info=about,
        train=whole.subset(rest),
        validation=whole.subset(part),
        test=test,
        fingerprint=of_photos(path, {*whole.paths, *test.paths}),
    )


def _training_folder(path: Path) -> Path:
    if not path.is_dir():
        raise ValueError(f"folder {str(path)!r} does not exist")
    train, val = path / "train", path / "val"
    if train.is_dir() != val.is_dir():
        here, absent = ("train", "val") if train.is_dir() else ("val", "train")
        raise ValueError(
            f"{str(path)!r} has a folder {here} but no {absent}; it needs both or none"
        )
    return train if train.is_dir() else path


def _classes(root: Path) -> tuple[str, ...]:
    names = sorted(
        entry.name for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
    if len(names) < 2:
        raise ValueError(
            f"{str(root)!r} has {len(names)} class folders; it needs one per class, two or more"
        )
    return tuple(names)


def _scan(root: Path, classes: tuple[str, ...], workers: int, size: int) -> PhotoSplit:
    unknown = sorted(set(_classes(root)) - set(classes))
    if unknown:
        raise ValueError(f"{str(root / unknown[0])!r} is a class that the training folder lacks")
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = sorted(
            photo
            for photo in (root / name).rglob("*")
            if photo.suffix.lower() in SUFFIXES and not photo.name.startswith(".")
        )
        paths += found
        labels += [label] * len(found)
    if not paths:
        raise ValueError(f"{str(root)!r} holds no images")
    return PhotoSplit(
        paths=tuple(paths),
        labels=torch.tensor(labels),
        workers=workers,
        size=size,
        mean=_MEAN,
        std=_STD,
    )
