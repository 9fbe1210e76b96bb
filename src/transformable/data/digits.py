"""The 1,797 handwritten digits that come with the package (see digits.LICENSE.txt)."""

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from .dataset import Dataset, Info
from .stratify import stratified
from .tensors import from_tensors

__all__ = ["TRAINING_IMAGES", "info", "load"]

TRAINING_IMAGES = 1438


def info() -> Info:
    return Info(name="digits", input_shape=(1, 16, 16), num_classes=10, classes=tuple("0123456789"))


def load(*, validation: float, seed: int) -> Dataset:
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as arrays:
        small = torch.from_numpy(arrays["images"])
        labels = torch.from_numpy(arrays["labels"]).long()
    # 8x8 values of 0 to 16; at 16x16 three stages of a CIFAR network still have pixels to work on
    pixels = small.unsqueeze(1).float() * (255 / 16)
    images = F.interpolate(pixels, size=(16, 16), mode="bilinear").round().to(torch.uint8)
    train, test = stratified(labels, 0.2, seed=0)
    return from_tensors(
        (images[train], labels[train]),
        (images[test], labels[test]),
        validation=validation,
        seed=seed,
        name="digits",
        padding=2,
        flips=False,  # a mirrored digit is another sign
    )
