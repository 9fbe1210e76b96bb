"""The settings that a training, a search and a student start from, by preset and dataset."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from .settings import Distilling, Preset, Searching, Training

__all__ = ["FEW", "MANY", "PRESETS", "Settings"]

FEW = 5_000  # training images: with fewer, small batches and more epochs make up for the steps
MANY = 50_000


def quick(data: str, images: int = MANY) -> Training:
    """Minutes on a CPU; a batch of photos is smaller, since they are large."""
    return Training(
        epochs=10,
        batch_size=32 if _photos(data) else 64,
        lr=0.1,
        weight_decay=5e-4,
        warmup_epochs=0.5,
    )


def paper(data: str, images: int = MANY) -> Training:
    """The schedule of the paper: 300 epochs, or 120 on photos."""
    cifar = Training(epochs=300, batch_size=256, lr=0.1, weight_decay=5e-4, warmup_epochs=5.0)
    return replace(cifar, epochs=120, weight_decay=1e-4) if _photos(data) else cifar


def quick_teacher(data: str, images: int = MANY) -> Training:
    """Longer than its student: a teacher that knows no more than a student of the same epochs
    holds it back (docs/results.md). Digits are easy."""
    if data == "digits":
        return quick(data)
    if _few(data, images):
        return replace(quick(data), epochs=30, batch_size=32)
    return replace(quick(data), epochs=16)


def quick_search(data: str, images: int = MANY) -> Searching:
    """From a trained network, in one epoch (docs/results.md says how it was found).

    The channels are sorted, and the search starts, by what the network's outputs depend on.
    Weights and sizes learn together from these outputs, in small steps; the weights are kept.
    """
    cifar = Searching()
    if _few(data, images):
        return replace(cifar, epochs=3, batch_size=32)
    return replace(cifar, batch_size=32) if _photos(data) else cifar


def alternating() -> Searching:
    """What the search by interpolation has in common with that of the paper: weights and sizes
    learn in turn, from labels alone; two candidates a step, temperatures and loss of the paper."""
    return Searching(
        lr=0.1,
        start="even",
        targets="labels",
        images="halves",
        inherit=False,
        select=2,
        align="pool",
        tau_start=10.0,
        tau_end=0.1,
        sharpen=1.0,
        arch_lr=0.001,
        pull="piecewise",
    )


def scratch_search(data: str, images: int = MANY) -> Searching:
    """With interpolation, from a network that was trained for a few epochs at most."""
    cifar = replace(alternating(), epochs=5, batch_size=128, lr=0.05, warmup_epochs=0.25)
    cifar = replace(cifar, select=8, tau_start=2.0, arch_lr=0.05, pull="multiplier", sharpen=10.0)
    return replace(cifar, epochs=15, batch_size=32) if _few(data, images) else cifar


def paper_search(data: str, images: int = MANY) -> Searching:
    """The search of the paper: from scratch, 600 epochs, or 120 on photos.

    >>> paper_search("cifar10").epochs, paper_search("cifar10").tau_start
    (600, 10.0)
    """
    cifar = replace(alternating(), epochs=600, batch_size=256, warmup_epochs=0.0)
    cifar = replace(cifar, start="scratch", sort=False)
    return replace(cifar, epochs=120, weight_decay=1e-4) if _photos(data) else cifar


def quick_student(data: str, images: int = MANY) -> Distilling:
    """A small network that has kept most of what the unpruned one knew: small steps, towards all of
    its logits."""
    cifar = Distilling()
    if _few(data, images):
        return replace(cifar, epochs=25, batch_size=32)
    return replace(cifar, batch_size=32) if _photos(data) else cifar


def scratch_student(data: str, images: int = MANY) -> Distilling:
    """A network that starts fresh, as `tas train`, with the answers of the unpruned one."""
    settings = Distilling(**vars(quick(data)), transfer="kd", kd="soft", kd_lambda=0.9)
    return replace(settings, epochs=30) if _few(data, images) else settings


def paper_student(data: str, images: int = MANY) -> Distilling:
    """The schedule of the paper, with its distillation from a network that starts fresh.

    >>> paper_student("folder:photos").kd_lambda
    0.5
    """
    weight = 0.5 if _photos(data) else 0.9
    return Distilling(**vars(paper(data)), transfer="kd", kd="soft", kd_lambda=weight)


def _few(data: str, images: int) -> bool:
    return data == "digits" or images < FEW


def _photos(data: str) -> bool:
    return data.startswith("folder:")


class Settings(NamedTuple):
    """The settings of one preset, each as a function of the dataset's name and of the number of its
    training images."""

    training: Callable[..., Training]
    """Of `tas train`."""
    teacher: Callable[..., Training]
    search: Callable[..., Searching]
    student: Callable[..., Distilling]
    pretrain_epochs: int
    """Plain training before a search that is given no trained weights."""


PRESETS: dict[Preset, Settings] = {
    "quick": Settings(quick, quick_teacher, quick_search, quick_student, 8),
    "scratch": Settings(quick, quick_teacher, scratch_search, scratch_student, 8),
    "paper": Settings(paper, paper, paper_search, paper_student, 0),
}
