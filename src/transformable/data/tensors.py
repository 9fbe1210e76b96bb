"""Datasets that fit in memory, as one tensor."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..seeds import generator
from .augment import crop, flip, normalise
from .dataset import Batches, Dataset, Info, Split
from .fingerprint import of_tensors
from .stratify import stratified

__all__ = [
    "TensorSplit",
    "Values",
    "check_same_scale",
    "count_classes",
    "from_tensors",
    "per_channel",
]

Values = float | Sequence[float]
"""One number for all channels, or one per channel."""
Array = Tensor | NDArray[Any] | Sequence[Any]

OTHER_SCALE = 20  # a factor between the largest values of two sets that means another scale


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TensorSplit(Split):
    """A ``Split`` whose images are one tensor (N, C, H, W)."""

    images: Tensor
    """The images as given, not normalised yet."""
    mean: Tensor
    """The mean of each channel, in the units of the images before they are normalised."""
    std: Tensor
    """The standard deviation of each channel, likewise."""
    padding: int
    """Training images are random crops of the image, padded by reflection with this many pixels."""
    flips: bool
    """Whether half of the training images, at random, are mirrored."""

    def subset(self, indexes: Tensor) -> Self:
        """The images at ``indexes``, in that order."""
        return replace(self, images=self._gather(indexes), labels=self.labels[indexes])

    def _augmented(self, plan: dict[int, Tensor], seed: int, epoch: int, own: slice) -> Batches:
        for step, indexes in plan.items():
            # drawn for the global batch, so that the number of processes does not change the images
            random = generator("augment", seed, epoch, step)
            size = len(indexes)
            offsets = torch.from_numpy(random.integers(2 * self.padding + 1, size=(size, 2)))
            mask = torch.from_numpy(random.random(size) < 0.5)
            x = self._gather(indexes[own])
            if self.padding:
                x = crop(x, offsets[own], self.padding)
            if self.flips:
                x = flip(x, mask[own])
            yield normalise(x, self.mean, self.std), self.labels[indexes[own]]

    def _plain(self, plan: list[Tensor]) -> Batches:
        for indexes in plan:
            yield normalise(self._gather(indexes), self.mean, self.std), self.labels[indexes]

    def _gather(self, indexes: Tensor) -> Tensor:
        # as (N, H, W, C), where a channels-last image is contiguous: ten times faster
        return self.images.permute(0, 2, 3, 1).index_select(0, indexes).permute(0, 3, 1, 2)


def from_tensors(
    train: tuple[Array, Array],
    test: tuple[Array, Array],
    *,
    validation: float = 0.1,
    seed: int = 0,
    name: str = "tensors",
    classes: tuple[str, ...] | None = None,
    mean: Values | None = None,
    std: Values | None = None,
    padding: int | None = None,
    flips: bool | None = None,
) -> Dataset:
    """A dataset of your own images (N, C, H, W) or (N, H, W) and integer labels: tensors, arrays or
    lists.

    uint8 images are normalised, by default with the training images' own mean and std, and
    augmented: crop with 4 pixels of padding and flip, or, below 24 pixels, where images tend to be
    signs, crop with an eighth of the height and no flip. Float images stay as they are.

    ``mean`` and ``std``, one number per channel or one for all, are in the units of the images: 0
    to 255 for uint8. (``load`` takes them for pixels of 0 to 1; multiply those by 255.)

    >>> images = torch.zeros(20, 3, 32, 32, dtype=torch.uint8)
    >>> own = from_tensors((images, torch.arange(20) % 2), (images, torch.arange(20) % 2))
    >>> own.info.num_classes, len(own.train), len(own.validation), len(own.test)
    (2, 18, 2, 20)
    """
    images, labels = _checked(*train, "train")
    test_images, test_labels = _checked(*test, "test")
    kinds = [f"{str(x.dtype)[6:]} images of {tuple(x.shape[1:])}" for x in (test_images, images)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"x_test holds {kinds[0]}, x_train {kinds[1]}; they must be alike")
    check_same_scale(images, test_images, "x_train", "x_test")
    if classes is None:
        count = count_classes(labels, test_labels, "y_train", "y_test")
        classes = tuple(map(str, range(count)))
    else:
        _check_range("y_train", labels, len(classes))
        _check_range("y_test", test_labels, len(classes))

    pixels = images.dtype == torch.uint8
    small = min(images.shape[2:]) < 24
    if padding is None:
        padding = (images.shape[2] // 8 if small else 4) if pixels else 0
    if flips is None:
        flips = pixels and not small
    normalised = pixels or mean is not None or std is not None
    means, stds = _normalisation(images, mean, std)
    whole = TensorSplit(
        images=images, labels=labels, mean=means, std=stds, padding=padding, flips=flips
    )
    rest, part = stratified(labels, validation, seed)
    channels, height, width = images.shape[1:]
    return Dataset(
        info=Info(
            name=name,
            input_shape=(channels, height, width),
            num_classes=len(classes),
            classes=classes,
            mean=tuple(means.tolist()) if normalised else (),
            std=tuple(stds.tolist()) if normalised else (),
            pixels=pixels,
        ),
        train=whole.subset(rest),
        validation=whole.subset(part),
        test=replace(whole, images=test_images, labels=test_labels),
        fingerprint=of_tensors(images, labels, test_images, test_labels),
    )


def _checked(given_images: Array, given_labels: Array, part: str) -> tuple[Tensor, Tensor]:
    x, y = f"x_{part}", f"y_{part}"
    images, labels = _as_tensor(given_images, x), _as_tensor(given_labels, y)
    for name, tensor, what in ((x, images, "images"), (y, labels, "labels")):
        if not len(tensor):
            raise ValueError(f"{name} holds no {what}; give one or more")
    if images.ndim == 3:
        images = images.unsqueeze(1)
    if images.ndim != 4 or 0 in images.shape:
        raise ValueError(f"{x} has shape {tuple(images.shape)}; give (N, C, H, W) or (N, H, W)")
    if images.shape[3] <= 4 < min(images.shape[1:3]):
        raise ValueError(
            f"{x} has shape {tuple(images.shape)}, the channels last; give (N, C, H, W), as "
            "x.permute(0, 3, 1, 2)"
        )
    if images.is_floating_point():
        images = images.float()
        if not images.isfinite().all():
            raise ValueError(f"{x} holds values that are not finite")
    elif images.dtype != torch.uint8:
        raise ValueError(f"{x} is {str(images.dtype)[6:]}; give uint8 or float32")
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f"{y} is {str(labels.dtype)[6:]} of shape {tuple(labels.shape)}; give N integers"
        )
    if len(images) != len(labels):
        raise ValueError(f"{x} has {len(images)} images but {y} {len(labels)} labels")
    return images.contiguous(memory_format=torch.channels_last), labels.long()


def _as_tensor(values: Array, name: str) -> Tensor:
    if not isinstance(values, Tensor):
        try:
            stacked = len(values) and isinstance(values[0], Tensor)
            values = torch.stack(list(values)) if stacked else _from_array(np.asarray(values))
        except (TypeError, ValueError, RuntimeError, KeyError):
            kind = type(values).__name__
            raise ValueError(
                f"{name} is {kind} that makes no tensor; give a tensor or an array of numbers"
            ) from None
    if not values.ndim:
        raise ValueError(f"{name} is one number; give one for each image")
    return values.detach().cpu()


def _from_array(array: NDArray[Any]) -> Tensor:
    # a copy where it is needed: torch warns of arrays that are read-only
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def check_same_scale(train: Tensor, test: Tensor, train_name: str, test_name: str) -> None:
    """Raise a ValueError if the values of one set are many times larger than those of the other,
    such as pixels of 0 to 255 and of 0 to 1."""
    if not train.is_floating_point():
        return
    largest = [float(images.abs().max()) for images in (train, test)]
    if max(largest) > OTHER_SCALE * min(largest) > 0:
        raise ValueError(
            f"values of {train_name} reach {largest[0]:g}, of {test_name} {largest[1]:g}; scale "
            "both alike"
        )


def count_classes(train: Tensor, test: Tensor, train_name: str, test_name: str) -> int:
    """The number of classes 0, 1, 2, ...; a ValueError if the training labels leave one out."""
    present = sorted(set(train.tolist()))
    if present[0] < 0:
        raise ValueError(f"{train_name} holds the label {present[0]}; labels count from 0")
    missing = next((i for i, label in enumerate(present) if i != label), None)
    if missing is not None:
        raise ValueError(
            f"{train_name} has no label {missing} but has {present[-1]}; labels must be without "
            "gaps"
        )
    if len(present) < 2:
        raise ValueError(f"{train_name} holds one class only; give two or more")
    _check_range(test_name, test, len(present))
    return len(present)


def _check_range(name: str, labels: Tensor, count: int) -> None:
    for label in (labels.min().item(), labels.max().item()):
        if not 0 <= label < count:
            raise ValueError(f"{name} holds the label {label}; the classes are 0 to {count - 1}")


def _normalisation(
    images: Tensor, mean: Values | None, std: Values | None
) -> tuple[Tensor, Tensor]:
    """The mean and std of each channel: as given, or measured on uint8 images.

    Measured on all training images, so that the choice of validation samples does not change the
    test images.
    """
    channels, pixels = images.shape[1], images.dtype == torch.uint8
    means, stds = torch.zeros(channels), torch.ones(channels)
    if pixels and (mean is None or std is None):
        means, stds = _statistics(images)
    if mean is not None:
        means = torch.tensor(per_channel("mean", mean, channels))
    if std is not None:
        stds = torch.tensor(per_channel("std", std, channels))
        if pixels and stds.max() <= 0.5:  # values of 0 to 1 do not deviate by more
            raise ValueError(
                f"std {stds.max():g} is too small for uint8 images; give mean and std in units of "
                "0 to 255 (those for pixels of 0 to 1, times 255)"
            )
    return means, stds


def per_channel(name: str, values: Values, channels: int) -> tuple[float, ...]:
    """``values`` as one finite number per channel; those of ``std`` must be above 0.

    >>> per_channel("std", 0.5, channels=3)
    (0.5, 0.5, 0.5)
    """
    numbers = tuple(values) if isinstance(values, Sequence) else (values,)
    if len(numbers) not in (1, channels):
        expected = "one" if channels == 1 else f"one for all channels or {channels}"
        raise ValueError(
            f"{name} {numbers} has {len(numbers)} numbers, but the images have {channels} "
            f"channel{'s' * (channels > 1)}; give {expected}"
        )
    for value in numbers:
        if not math.isfinite(value) or (name == "std" and value <= 0):
            limits = "above 0" if name == "std" else "finite"
            raise ValueError(f"{name} must be {limits}, not {value:g}")
    return tuple(map(float, numbers)) * (channels // len(numbers))


def _statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    # by histogram, which is exact and needs no float copy of the set
    counts = torch.stack(
        [channel.flatten().bincount(minlength=256) for channel in images.unbind(1)]
    )
    share = counts.double() / counts.sum(1, keepdim=True)
    values = torch.arange(256.0, dtype=torch.float64)
    mean = share @ values
    std = (share @ values.square() - mean.square()).clamp(min=0).sqrt()
    # a channel of one value (all black, say) becomes zero instead of a division by zero
    return mean.float(), std.where(std > 0, 1).float()
