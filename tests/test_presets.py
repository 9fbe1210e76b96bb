"""Epochs and batches by the number of training images."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import transformable as tas
from transformable.cli.options import Search
from transformable.cli.parsing import parse
from transformable.cli.pruning_options import Prune
from transformable.data.catalogue import training_images
from transformable.presets import FEW, PRESETS
from transformable.pruning import prune as pruning
from transformable.pruning.job import PruningJob


@pytest.mark.parametrize("preset", ["quick", "scratch"])
def test_few_images_have_the_epochs_of_digits(preset: tas.settings.Preset) -> None:
    settings = PRESETS[preset]
    for part in (settings.search, settings.student):
        assert part("npz:own.npz", FEW - 1) == part("digits")
        assert part("npz:own.npz", FEW) == part("cifar10") != part("digits")


def test_a_teacher_of_few_images_has_more_steps() -> None:
    few, many = (PRESETS["quick"].teacher("npz:own.npz", images) for images in (FEW - 1, FEW))
    assert (few.epochs, few.batch_size) == (30, 32)
    assert (many.epochs, many.batch_size) == (16, 64)


def npz(folder: Path, count: int) -> str:
    images, labels = np.zeros((count, 8, 8), np.uint8), np.arange(count) % 2
    parts = {"x_train": images, "y_train": labels, "x_test": images[:4], "y_test": labels[:4]}
    np.savez(folder / "own.npz", **parts)  # type: ignore[arg-type]
    return f"npz:{folder / 'own.npz'}"


def photos(folder: Path, count: int) -> str:
    for name in ("cats", "dogs"):
        (folder / name).mkdir()
        for number in range(count // 2):
            Image.new("RGB", (4, 4)).save(folder / name / f"{number}.png")
    return f"folder:{folder}"


@pytest.mark.parametrize(("make", "count"), [(npz, 20), (photos, 16)])
def test_a_command_counts_the_images(
    tmp_path: Path, make: Callable[[Path, int], str], count: int
) -> None:
    data = make(tmp_path, 20)
    assert training_images(data) == count  # a fifth of a folder without val is for the test
    options = parse("prune", Prune, [f"--data={data}"])
    assert (options.search.epochs, options.student.epochs) == (3, 25)
    assert parse("search", Search, [f"--data={data}"]).epochs == 3


def test_data_that_cannot_be_read_are_left_to_the_command() -> None:
    options = parse("prune", Prune, ["--data=npz:missing.npz"])
    assert (options.search.epochs, options.student.epochs) == (1, 10)


def test_in_python_too(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[PruningJob] = []
    monkeypatch.setattr(pruning, "run_job", lambda job, session: jobs.append(job))
    images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    net = tas.models.build("resnet20", num_classes=2)
    tas.prune(net, tas.data.from_tensors(images, images))
    [job] = jobs
    assert (job.training.epochs, job.searching.epochs, job.distilling.epochs) == (30, 3, 25)
