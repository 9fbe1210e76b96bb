"""Photos in one folder per class, decoded by worker processes."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ..seeds import generator
from .augment import normalise
from .dataset import Batches, Dataset, Info, Split
from .photos import SIZE, SUFFIXES, decode, evaluation_view, training_view
from .stratify import stratified

__all__ = ["PhotoSplit", "info", "load"]

# ImageNet's, in units of 0 to 255
_MEAN = torch.tensor((0.485, 0.456, 0.406)) * 255
_STD = torch.tensor((0.229, 0.224, 0.225)) * 255


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PhotoSplit(Split):
    """A ``Split`` whose images are files."""

    paths: tuple[Path, ...]
    mean: Tensor
    """Of each channel, in units of 0 to 255."""
    std: Tensor
    workers: int
    """Processes that decode; with 0 this process does. The images do not depend on it."""
    size: int = SIZE
    """Height and width of the images."""

    def subset(self, indexes: Tensor) -> Self:
        paths = tuple(self.paths[index] for index in indexes.tolist())
        return replace(self, paths=paths, labels=self.labels[indexes])

    def _augmented(self, plan: dict[int, Tensor], seed: int, epoch: int, own: slice) -> Batches:
        own_plan = [indexes[own] for indexes in plan.values()]
        return self._batches(own_plan, _Views(self.paths, self.size, (seed, epoch)))

    def _plain(self, plan: list[Tensor]) -> Batches:
        return self._batches(plan, _Views(self.paths, self.size, None))

    def _batches(self, plan: list[Tensor], views: "_Views") -> Batches:
        if not plan:
            return
        loader = DataLoader(
            views,
            batch_sampler=[indexes.tolist() for indexes in plan],
            collate_fn=_collate,
            num_workers=min(self.workers, _processors(), len(plan)),
            # its own, because a loader otherwise draws from the global one at every epoch, and a
            # run resumed in the middle of an epoch would draw once more than one that was not
            generator=torch.Generator(),
        )
        for indexes, images in zip(plan, loader, strict=True):
            if isinstance(images, str):
                raise ValueError(images)
            x = torch.from_numpy(images).permute(0, 3, 1, 2)
            yield normalise(x, self.mean, self.std), self.labels[indexes]


class _Views(TorchDataset[NDArray[np.uint8] | str]):
    """A view of each photo, for training in (seed, epoch) or else for evaluation.

    A photo that cannot be decoded gives the message about it: an exception that crosses processes
    becomes pages of traceback.
    """

    def __init__(self, paths: tuple[Path, ...], size: int, epoch: tuple[int, int] | None) -> None:
        self.paths, self.size, self.epoch = paths, size, epoch

    def __getitem__(self, index: int) -> NDArray[np.uint8] | str:
        try:
            image = decode(self.paths[index])
            if self.epoch is None:
                return evaluation_view(image, self.size)
            return training_view(image, generator("photo", *self.epoch, index), self.size)
        except ValueError as error:
            return str(error)


def _collate(views: Sequence[NDArray[np.uint8] | str]) -> NDArray[np.uint8] | str:
    # an array, because tensors travel in shared memory, of which containers have little
    messages = [view for view in views if isinstance(view, str)]
    arrays = [view for view in views if not isinstance(view, str)]
    return messages[0] if messages else np.stack(arrays)


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


def load(path: Path, *, validation: float, seed: int, workers: int, size: int = SIZE) -> Dataset:
    if workers < 0:
        raise ValueError(f"{workers} workers are impossible; give 0 or more")
    about = info(path, size)
    root = _training_folder(path)
    whole = _scan(root, about.classes, workers, size)
    counts = whole.labels.bincount(minlength=len(about.classes)).tolist()
    for name, count in zip(about.classes, counts, strict=True):
        if not count:
            raise ValueError(f"class folder {str(root / name)!r} holds no images")
    if root == path:
        # whatever the seed is: a network of another seed must not have seen the test images
        rest, part = stratified(whole.labels, 0.2, seed=0)
        whole, test = whole.subset(rest), whole.subset(part)
    else:
        test = _scan(path / "val", about.classes, workers, size)
    rest, part = stratified(whole.labels, validation, seed)
    return Dataset(info=about, train=whole.subset(rest), validation=whole.subset(part), test=test)


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
