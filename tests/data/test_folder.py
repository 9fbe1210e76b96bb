"""Photo folders: what is found, what is seen, and that it does not depend on who decodes it."""

import itertools
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance
from torch import Tensor

from transformable import data
from transformable.data import photos
from transformable.data.folder import PhotoSplit
from transformable.data.photos import crop_box, decode, evaluation_view, training_view

Batches = list[tuple[Tensor, Tensor]]
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def photo(path: Path, number: int, size: tuple[int, int] = (50, 40)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def folder(root: Path, counts: dict[str, int]) -> Path:
    for offset, (name, count) in enumerate(counts.items()):
        for number in range(count):
            photo(root / name / f"{number}.png", 100 * offset + number)
    return root


def load(root: Path, *, workers: int = 0, validation: float = 0, seed: int = 0) -> data.Dataset:
    return data.load(f"folder:{root}", workers=workers, validation=validation, seed=seed)


def paths(split: data.Split) -> tuple[Path, ...]:
    assert isinstance(split, PhotoSplit)
    return split.paths


def same(first: Iterator[tuple[Tensor, Tensor]], second: Batches) -> None:
    for (x, y), (u, v) in zip(first, second, strict=True):
        assert torch.equal(x, u)
        assert torch.equal(y, v)


def test_the_test_photos_of_one_folder_do_not_depend_on_the_seed(tmp_path: Path) -> None:
    root = folder(tmp_path, {"dog": 10, "cat": 20})
    photo(root / "cat" / "more" / "x.JPG", 1)
    (root / "cat" / "notes.txt").write_text("no photo")
    (root / "cat" / ".hidden.png").write_text("no photo")
    (root / ".git").mkdir()
    own = load(root, validation=0.25)
    assert own.info == data.info(f"folder:{root}")
    assert own.info.classes == ("cat", "dog")
    assert own.info.input_shape == (3, 224, 224)
    assert own.test.labels.bincount().tolist() == [4, 2]
    assert own.validation.labels.bincount().tolist() == [4, 2]
    assert own.train.labels.bincount().tolist() == [13, 6]
    other = load(root, validation=0.25, seed=1)
    # a network of another seed has not been trained on them
    assert paths(other.test) == paths(own.test)
    assert paths(other.validation) != paths(own.validation)
    assert not {*paths(other.train), *paths(other.validation)} & {*paths(own.test)}


def test_train_and_val(tmp_path: Path) -> None:
    folder(tmp_path / "train", {"a": 3, "b": 2, "c": 2})
    folder(tmp_path / "val", {"a": 1, "c": 2})
    own = load(tmp_path)
    assert own.info.classes == ("a", "b", "c")
    assert own.train.labels.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert own.test.labels.tolist() == [0, 2, 2]
    assert len(own.validation) == 0
    assert list(own.validation.ordered(4)) == []


def test_evaluation_view_is_the_centre_of_256(tmp_path: Path) -> None:
    root = folder(tmp_path, {"a": 5, "b": 5})
    own = load(root)
    got = list(own.test.ordered(1))
    assert [y.tolist() for _, y in got] == [[0], [1]]
    for x, _ in got:
        assert x.shape == (1, 3, 224, 224)
        assert x.dtype == torch.float32
        assert x.is_contiguous(memory_format=torch.channels_last)
    pixels = ((got[0][0][0] * STD + MEAN) * 255).permute(1, 2, 0)
    candidates = []
    for number in range(5):
        with Image.open(root / "a" / f"{number}.png") as image:
            resized = np.asarray(image.resize((256, 256), Image.Resampling.BILINEAR))
        candidates.append(torch.from_numpy(resized[16:240, 16:240].astype(np.float32)))
    # torch resizes as Pillow does, to one of 255 levels
    assert sum(torch.allclose(pixels, one, atol=1.001) for one in candidates) == 1


def test_results_do_not_depend_on_workers_start_or_rank(tmp_path: Path) -> None:
    root = folder(tmp_path, {"a": 9, "b": 8})
    alone = load(root).train
    whole = list(alone.shuffled(4, seed=3, epoch=1))
    assert len(whole) == alone.steps(4) == 3
    torch.manual_seed(0)
    before = torch.get_rng_state()
    for workers in (1, 2):
        split = load(root, workers=workers).train
        same(split.shuffled(4, seed=3, epoch=1), whole)
        same(split.ordered(5), list(alone.ordered(5)))
    assert torch.equal(torch.get_rng_state(), before)
    same(alone.shuffled(4, seed=3, epoch=1, start=2), whole[2:])
    for rank in range(2):
        own = [(x[rank::2], y[rank::2]) for x, y in whole]
        same(alone.shuffled(4, seed=3, epoch=1, rank=rank, world=2), own)


def test_epochs_and_seeds_differ(tmp_path: Path) -> None:
    split = load(folder(tmp_path, {"a": 3, "b": 3})).train
    views = []
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        ((x, y),) = split.shuffled(8, seed=seed, epoch=epoch)
        views.append(x[y.argsort(stable=True)].sort(0).values)
    assert not torch.equal(views[0], views[1])
    assert not torch.equal(views[0], views[2])


def test_ranks_partition_what_is_evaluated(tmp_path: Path) -> None:
    split = load(folder(tmp_path, {"a": 7, "b": 6})).train
    whole = torch.cat([x for x, _ in split.ordered(4)])
    ranks = [[x for x, _ in split.ordered(4, rank=rank, world=2)] for rank in range(2)]
    assert [len(got) for got in ranks] == [3, 3]
    assert sorted(torch.cat(ranks[0] + ranks[1]).sum((1, 2, 3)).tolist()) == sorted(
        whole.sum((1, 2, 3)).tolist()
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_a_damaged_photo_is_named(workers: int, tmp_path: Path) -> None:
    root = folder(tmp_path, {"a": 5, "b": 5})
    for path in root.rglob("*.png"):
        path.write_bytes(path.read_bytes()[:200])
    split = load(root, workers=workers).train
    message = (
        re.escape(f"photo '{root}")
        + r"/[ab]/\d\.png' cannot be decoded: .* at most 1 is allowed: repair"
    )
    for batches in (split.ordered(4), split.shuffled(4, seed=0, epoch=0)):
        with (
            pytest.raises(ValueError, match=message) as caught,
            warnings.catch_warnings(action="ignore"),
        ):
            next(batches)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("workers", [0, 1])
def test_one_damaged_photo_is_left_out(workers: int, tmp_path: Path) -> None:
    root = folder(tmp_path, {"a": 5, "b": 5})
    whole = load(root).train
    assert isinstance(whole, PhotoSplit)
    train = load(root, workers=workers).train
    (bad, next_one) = paths(train)[3:5]
    bad.write_bytes(bad.read_bytes()[:200])
    with pytest.warns(UserWarning, match=r"cannot be decoded.*; it is left out, 1 of 10 so far"):
        (x, y), *_ = train.ordered(8)
    # evaluation counts the others once
    kept = torch.tensor([0, 1, 2, 4, 5, 6, 7])
    assert y.tolist() == train.labels[kept].tolist()
    assert torch.equal(x, next(whole.subset(kept).ordered(8))[0])
    # training has the next one in its place, in every epoch and from every step on; no new warning
    batches = list(train.shuffled(4, seed=0, epoch=0))
    same(train.shuffled(4, seed=0, epoch=0, start=1), batches[1:])
    whole_paths = list(paths(whole))
    whole_paths[3] = next_one
    labels = train.labels.clone()
    labels[3] = labels[4]
    same(
        replace(whole, paths=tuple(whole_paths), labels=labels).shuffled(4, seed=0, epoch=0),
        batches,
    )


def test_a_photo_that_cannot_be_read_is_no_damaged_photo(tmp_path: Path) -> None:
    split = load(folder(tmp_path, {"a": 5, "b": 5})).train
    paths(split)[0].unlink()
    with pytest.raises(ValueError, match=r"cannot be read: No such file or directory$"):
        next(split.ordered(8))


def test_other_modes_become_rgb(tmp_path: Path) -> None:
    for mode in ("L", "RGBA", "P", "CMYK", "1"):
        path = tmp_path / f"{mode}.tif"
        Image.new(mode, (9, 9)).save(path)
        assert decode(path).mode == "RGB"
    photo(tmp_path / "colours.png", 0)
    palette = decode(tmp_path / "colours.png").quantize(8)
    palette.save(tmp_path / "clear.png", transparency=b"\x00\x10")
    assert decode(tmp_path / "clear.png").mode == "RGB"


def test_crop_boxes_keep_scale_and_ratio() -> None:
    random = np.random.default_rng(0)
    areas, ratios = [], []
    for _ in range(2000):
        left, top, width, height = crop_box(300, 300, random)
        assert 0 <= left <= left + width <= 300
        assert 0 <= top <= top + height <= 300
        areas.append(width * height / 90_000)
        ratios.append(width / height)
    assert min(areas) == pytest.approx(0.08, abs=0.01)
    assert max(areas) == pytest.approx(1, abs=0.05)  # a whole photo seldom has the ratio drawn
    assert min(ratios) == pytest.approx(3 / 4, abs=0.01)
    assert max(ratios) == pytest.approx(4 / 3, abs=0.01)


def test_crop_boxes_of_photos_that_no_draw_fits() -> None:
    random = np.random.default_rng(0)
    assert crop_box(9000, 9, random) == (4494, 0, 12, 9)
    assert crop_box(9, 9000, random) == (0, 4494, 9, 12)
    assert crop_box(1, 1, random) == (0, 0, 1, 1)


def test_training_view_of_a_plain_photo_changes_only_its_brightness() -> None:
    grey = Image.new("RGB", (300, 200), (100, 100, 100))
    levels, random = set(), np.random.default_rng(0)
    for _ in range(200):
        view = training_view(grey, random)
        assert view.shape == (224, 224, 3)
        assert view.min() == view.max()  # contrast and saturation find nothing to change
        levels.add(int(view.max()))
    assert 59 <= min(levels) < 63
    assert 137 < max(levels) <= 140


def test_training_view_mirrors_half_the_time() -> None:
    pixels = np.zeros((100, 100, 3), np.uint8)
    pixels[:] = np.linspace(40, 90, 100).astype(np.uint8)[None, :, None]
    ramp, random = Image.fromarray(pixels), np.random.default_rng(0)
    views = [training_view(ramp, random).astype(float) for _ in range(200)]
    rising = sum(view[:, -1].mean() > view[:, 0].mean() for view in views)
    assert 70 <= rising <= 130
    assert evaluation_view(ramp)[0, 0, 0] < evaluation_view(ramp)[0, -1, 0]


def test_training_view_jitters_contrast_and_saturation() -> None:
    pixels = np.zeros((100, 100, 3), np.uint8)
    pixels[:50], pixels[50:] = (120, 80, 80), (60, 60, 60)
    image, random = Image.fromarray(pixels), np.random.default_rng(0)
    contrast, saturation = [], []
    for _ in range(300):
        flat = training_view(image, random).reshape(-1, 3).astype(float)
        redness = flat[:, 0] - flat[:, 1]
        if redness.min() < 3 < redness.max():  # both halves are in view
            luma = flat @ np.array([0.299, 0.587, 0.114])
            difference = (luma.max() - luma.min()) / 31.96
            contrast.append(difference)  # times brightness
            saturation.append(redness.max() / 40 / difference)
    assert min(contrast) < 0.5  # 0.36 to 1.96; by brightness alone 0.6 to 1.4
    assert max(contrast) > 1.6
    assert 0.5 < min(saturation) < 0.7
    assert 1.3 < max(saturation) < 1.5


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ({}, "has 0 class folders"),
        ({"a/0.png": 1}, "has 1 class folders; it needs one per class, two or more"),
        ({"a/x.txt": 0, "b/x.txt": 0}, "holds no images"),
        ({"a/0.png": 1, "b/x.txt": 0}, "b' holds no images"),
        ({"train/a/0.png": 1, "train/b/0.png": 1}, "has a folder train but no val"),
        ({"val/a/0.png": 1, "val/b/0.png": 1}, "has a folder val but no train"),
        (
            {f"{part}/{name}/0.png": 1 for part in ("train", "val") for name in "ab"}
            | {"val/new/0.png": 1},
            "val/new' is a class that the training folder lacks",
        ),
    ],
)
def test_folders_refused(made: dict[str, int], message: str, tmp_path: Path) -> None:
    for name, is_photo in made.items():
        if is_photo:
            photo(tmp_path / name, 0)
        else:
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text("text")
    with pytest.raises(ValueError, match=message) as caught:
        load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_missing_folder_and_negative_workers(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none' does not exist"):
        data.info(f"folder:{tmp_path / 'none'}")
    with pytest.raises(ValueError, match="workers must be 0 or more, not -1"):
        load(folder(tmp_path, {"a": 1, "b": 1}), workers=-1)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_colours_are_jittered_as_by_pillow_in_any_order(order: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    # of a middling brightness, so that nothing is cut off on the way
    pixels = (random.integers(80, 130, (40, 50, 3)) + random.integers(-20, 20, 3)).astype(np.uint8)
    factors = (1.3, 0.7, 1.4)
    ours = np.array(photos.jittered(Image.fromarray(pixels), *factors))
    x, grey = pixels.astype(float), np.array([0.299, 0.587, 0.114])
    for index in order:
        mean = np.full(1, (x @ grey).mean())
        centre = (np.zeros(1), mean, (x @ grey)[..., None])[index]
        x = centre + factors[index] * (x - centre)
    assert np.abs(ours - x).max() <= 1.5  # rounding, and a mean over some of the pixels
    # Pillow rounds down after each of the three
    theirs = Image.fromarray(pixels)
    enhancers = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for index in order:
        theirs = enhancers[index](theirs).enhance(factors[index])
    assert np.abs(ours - np.array(theirs).astype(float)).max() <= 4


@pytest.mark.parametrize("size", [(50, 40), (300, 260), (7, 900)])
def test_photos_are_resized_as_by_pillow(size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    theirs = np.array(image.resize((224, 224), Image.Resampling.BILINEAR)).astype(int)
    difference = np.abs(photos.resized(image, 224) - theirs)
    assert difference.max() <= 1
    assert difference.mean() < 0.2


def test_many_batches_are_decoded_ahead_of_slow_steps(tmp_path: Path) -> None:
    """A worker must not write into the place of the batch that is being read."""
    root = folder(tmp_path, {"a": 20, "b": 20})
    split = load(root, workers=1).train
    expected = [x for x, _ in load(root).train.shuffled(2, seed=0, epoch=0)]
    got = []
    for x, _ in split.shuffled(2, seed=0, epoch=0):
        time.sleep(0.05)  # the worker decodes all that it may meanwhile
        got.append(x)
    assert len(got) == 16
    assert all(torch.equal(x, y) for x, y in zip(got, expected, strict=True))
