"""Images are normalised with the mean and deviation that the network was trained with."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from transformable import data
from transformable.data import cifar

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)


def npz(folder: Path, dtype: str = "uint8", channels: int = 3) -> str:
    images = np.random.default_rng(0).integers(0, 256, (24, channels, 26, 26)).astype(dtype)
    labels = np.arange(24) % 2
    np.savez(folder / "own.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    return f"npz:{folder / 'own.npz'}"


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Small datasets of every kind, whose images are pixels."""
    random = np.random.default_rng(0)
    official = cifar.SETS["cifar10"]
    few = replace(official, records=dict.fromkeys(official.records, 8))
    monkeypatch.setitem(cifar.SETS, "cifar10", few)
    for name in official.records:
        records = random.integers(0, 256, (8, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(8)
        (tmp_path / f"{name}.bin").write_bytes(records.tobytes())
    for number in range(24):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(path)
    return {
        "digits": "digits",
        "cifar": "cifar10",
        "small cifar": "cifar10:16",
        "npz": npz(tmp_path),
        "folder": f"folder:{tmp_path / 'photos'}",
    }


def by_channel(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(-1, 1, 1)


@pytest.mark.parametrize("kind", ["digits", "cifar", "small cifar", "npz", "folder"])
def test_every_split_is_normalised(kind: str, specs: dict[str, str], tmp_path: Path) -> None:
    channels = 1 if kind == "digits" else 3
    mean, std = MEAN[:channels], STD[:channels]
    own, given = (
        data.load(specs[kind], tmp_path, validation=0.25, workers=0, mean=each[0], std=each[1])
        for each in ((None, None), (mean, std))
    )
    assert given.info == own.info
    assert given.info.mean == pytest.approx([255 * value for value in mean])
    assert given.info.std == pytest.approx([255 * value for value in std])
    assert given.info.pixels
    for part in ("train", "validation", "test"):
        before, after = getattr(own, part), getattr(given, part)
        assert len(before) == len(after) > 0
        for plain, normalised in (
            (before.ordered(8), after.ordered(8)),
            (before.shuffled(8, seed=1, epoch=2), after.shuffled(8, seed=1, epoch=2)),
        ):
            (x, y), (normalised_x, normalised_y) = next(plain), next(normalised)
            pixels = x.double() * by_channel(own.info.std) + by_channel(own.info.mean)
            assert torch.allclose(pixels, pixels.round(), atol=1e-3)
            expected = (pixels.round() / 255 - by_channel(mean)) / by_channel(std)
            assert torch.allclose(normalised_x.double(), expected, rtol=1e-6, atol=2e-6)
            assert torch.equal(y, normalised_y)


def test_pixels_of_a_file(tmp_path: Path) -> None:
    loaded = data.load(npz(tmp_path), mean=MEAN, std=STD)
    [(x, _)] = loaded.test.ordered(24)
    with np.load(tmp_path / "own.npz") as file:
        pixels = torch.from_numpy(file["x_test"]).double()
    expected = (pixels / 255 - by_channel(MEAN)) / by_channel(STD)
    assert torch.allclose(x.double(), expected, rtol=1e-6, atol=2e-6)


def test_floats_are_normalised_as_they_are(tmp_path: Path) -> None:
    loaded = data.load(npz(tmp_path, "float32"), mean=(100.0, 2.0, -3.0), std=40)
    [(x, _)] = loaded.test.ordered(24)
    with np.load(tmp_path / "own.npz") as file:
        values = torch.from_numpy(file["x_test"])
    expected = (values - by_channel((100, 2, -3)).float()) / 40
    assert torch.allclose(x, expected, rtol=1e-6, atol=1e-6)
    assert loaded.info.mean == (100, 2, -3)
    assert loaded.info.std == (40, 40, 40)
    assert not loaded.info.pixels
    untouched = data.load(npz(tmp_path, "float32"))
    assert (untouched.info.mean, untouched.info.std) == ((), ())


def test_one_number_is_for_all_channels(tmp_path: Path) -> None:
    spec = npz(tmp_path)
    one, three = (
        data.load(spec, mean=mean, std=std)
        for mean, std in ((0.5, 0.25), ((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)))
    )
    assert one.info.mean == three.info.mean == (127.5, 127.5, 127.5)
    assert torch.equal(next(one.test.ordered(24))[0], next(three.test.ordered(24))[0])


@pytest.mark.parametrize(
    ("mean", "std", "message"),
    [
        (
            (0.5, 0.5),
            0.2,
            "mean (0.5, 0.5) has 2 numbers, but the images have 3 channels; give",
        ),
        (0.5, (0.1,) * 4, "std (0.1, 0.1, 0.1, 0.1) has 4 numbers, but the images have 3 channels"),
        ((), 0.2, "mean () has 0 numbers"),
        (0.5, 0, "std must be above 0, not 0"),
        (0.5, (0.2, -0.2, 0.2), "std must be above 0, not -0.2"),
        (float("nan"), 0.2, "mean must be finite, not nan"),
        (0.5, float("inf"), "std must be above 0, not inf"),
        ((125.3, 123.0, 113.9), (63.0, 62.1, 66.7), "mean 125.3 is not for pixels of 0 to 1; give"),
        (-0.5, 0.2, "mean -0.5 is not for pixels of 0 to 1"),
        (0.5, 51, "std 51 is not for pixels of 0 to 1"),
        (0.5, None, "std is missing; give mean and std"),
        (None, 0.5, "mean is missing; give mean and std"),
    ],
)
@pytest.mark.parametrize("kind", ["cifar", "npz", "folder"])
def test_impossible_values(
    kind: str,
    mean: float | tuple[float, ...] | None,
    std: float | tuple[float, ...] | None,
    message: str,
    specs: dict[str, str],
    tmp_path: Path,
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        data.load(specs[kind], tmp_path, mean=mean, std=std)
    assert "\n" not in str(caught.value)


def test_a_single_channel_takes_one_number() -> None:
    with pytest.raises(ValueError, match=r"3 numbers, but the images have 1 channel; give one$"):
        data.load("digits", mean=MEAN, std=STD)


def test_tensors_take_the_units_of_their_images() -> None:
    images = torch.randint(0, 256, (8, 3, 8, 8), dtype=torch.uint8)
    labels = torch.arange(8) % 2
    pair = (images, labels)
    own = data.from_tensors(pair, pair, validation=0, mean=127.5, std=(51.0, 51.0, 25.5))
    [(x, _)] = own.test.ordered(8)
    expected = (images.double() - 127.5) / by_channel((51, 51, 25.5))
    assert torch.allclose(x.double(), expected, rtol=1e-6, atol=1e-6)
    for arguments, message in (
        ({"mean": (1.0, 2.0)}, "mean (1.0, 2.0) has 2 numbers, but the images have 3 channels"),
        ({"std": 0}, "std must be above 0, not 0"),
        ({"mean": MEAN, "std": STD}, "give mean and std in units of 0 to 255"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            data.from_tensors(pair, pair, **arguments)
    floats = (images / 255, labels)
    [(x, _)] = data.from_tensors(floats, floats, validation=0, mean=MEAN, std=STD).test.ordered(8)
    expected = (images.double() / 255 - by_channel(MEAN)) / by_channel(STD)
    assert torch.allclose(x.double(), expected, rtol=1e-5, atol=2e-6)
