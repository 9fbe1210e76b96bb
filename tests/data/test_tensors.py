"""Digits, npz files, tensors of one's own, and the names of datasets."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from transformable import data
from transformable.data.arrays import info as npz_info


def tensor_split(split: data.Split) -> data.TensorSplit:
    assert isinstance(split, data.TensorSplit)
    return split


def arrays(**changes: Any) -> dict[str, NDArray[Any]]:
    random = np.random.default_rng(0)
    made: dict[str, NDArray[Any]] = {
        "x_train": random.integers(0, 256, (40, 3, 26, 25), dtype=np.uint8),
        "y_train": np.arange(40) % 4,
        "x_test": random.integers(0, 256, (8, 3, 26, 25), dtype=np.uint8),
        "y_test": np.arange(8) % 4,
    }
    return made | changes


def saved(path: Path, content: dict[str, NDArray[Any]]) -> str:
    np.savez(path / "own.npz", **content)  # type: ignore[arg-type]
    return f"npz:{path / 'own.npz'}"


def test_public_names() -> None:
    assert sorted(data.__all__) == data.__all__
    assert all(hasattr(data, name) for name in data.__all__)


def test_digits() -> None:
    digits = data.load("digits")
    assert digits.info == data.info("digits")
    assert digits.info.input_shape == (1, 16, 16)
    assert digits.info.classes == tuple("0123456789")
    assert (len(digits.train), len(digits.validation), len(digits.test)) == (1366, 72, 359)
    # the counts of the published file by digit
    total = sum(split.labels.bincount() for split in (digits.train, digits.validation, digits.test))
    assert isinstance(total, torch.Tensor)
    assert total.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert digits.test.labels.bincount().tolist() == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]


def test_digits_are_enlarged_to_the_whole_range() -> None:
    file = Path(data.__file__).with_name("digits.npz")
    raw = np.load(file, allow_pickle=False)
    assert raw["images"].shape == (1797, 8, 8)
    assert raw["images"].max() == 16
    # the first digit of the published set, its fourth row
    assert raw["images"][0, 3].tolist() == [0, 4, 12, 0, 0, 8, 8, 0]
    assert raw["labels"][:10].tolist() == list(range(10))
    split = tensor_split(data.load("digits", validation=0).train)
    rest, _ = data.stratified(torch.from_numpy(raw["labels"]), 0.2, 0)
    small = torch.from_numpy(raw["images"])[rest].double() * 255 / 16
    # bilinear by hand: pixel 5 lies a quarter of a pixel past 2, pixel 6 a quarter before 3
    rows = 0.75 * small[:, 2] + 0.25 * small[:, 3]
    expected = 0.25 * rows[:, 2] + 0.75 * rows[:, 3]
    assert torch.equal(split.images[:, 0, 5, 6].double(), expected.round())
    assert split.images[:, 0, 0, 0].max() == round(small[:, 0, 0].max().item())
    assert int(split.images.max()) == 255


def test_digits_test_set_and_normalisation_do_not_move_with_the_seed() -> None:
    first, second = data.load("digits", seed=0), data.load("digits", seed=1, validation=0.3)
    assert torch.equal(tensor_split(first.test).images, tensor_split(second.test).images)
    assert torch.equal(tensor_split(first.train).mean, tensor_split(second.train).mean)
    assert not torch.equal(
        tensor_split(first.validation).images[:100], tensor_split(second.validation).images[:100]
    )


def test_digits_training_images_are_normal_and_never_mirrored() -> None:
    split = tensor_split(data.load("digits", validation=0).train)
    assert (split.padding, split.flips) == (2, False)
    plain = torch.cat([x for x, _ in split.ordered(256)])
    assert plain.mean().item() == pytest.approx(0, abs=1e-5)
    assert plain.std(correction=0).item() == pytest.approx(1, abs=1e-5)


def test_validation_of_nothing_is_empty() -> None:
    digits = data.load("digits", validation=0)
    assert (len(digits.train), len(digits.validation)) == (1438, 0)


@pytest.mark.parametrize("validation", [1, 1.5, -0.1, float("nan")])
def test_impossible_validation(validation: float) -> None:
    with pytest.raises(ValueError, match=rf"validation must be in \[0, 1\), not {validation}"):
        data.load("digits", validation=validation)


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("cifr10", "did you mean 'cifar10'? "),
        ("digit", "did you mean 'digits'? "),
        ("folder", "did you mean 'folder:PATH'? "),
        ("npz:", "did you mean 'npz:PATH'? "),
        ("digits:x", "did you mean 'digits'? "),
        ("zzz", ""),
    ],
)
def test_unknown_names(spec: str, hint: str) -> None:
    message = (
        f"unknown dataset {spec!r}; {hint}known: digits, cifar10, cifar100, folder:PATH, npz:PATH"
    )
    for ask in (data.info, data.load):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            ask(spec)


def test_npz(tmp_path: Path) -> None:
    content = arrays()
    spec = saved(tmp_path, content)
    own = data.load(spec, validation=0.2)
    assert own.info == data.info(spec)
    assert own.info.input_shape == (3, 26, 25)
    assert own.info.classes == ("0", "1", "2", "3")
    assert (len(own.train), len(own.validation), len(own.test)) == (32, 8, 8)
    test = tensor_split(own.test)
    assert torch.equal(test.images, torch.from_numpy(content["x_test"]))
    assert test.labels.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    assert (test.padding, test.flips) == (4, True)
    pixels = content["x_train"].astype(np.float64)
    np.testing.assert_allclose(test.mean.numpy(), pixels.mean((0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(test.std.numpy(), pixels.std((0, 2, 3)), rtol=1e-6)


def test_npz_layouts_come_to_the_same(tmp_path: Path) -> None:
    content = arrays()
    expected = tensor_split(data.load(saved(tmp_path, content)).train)
    last = {key: content[key].transpose(0, 2, 3, 1) for key in ("x_train", "x_test")}
    spec = saved(tmp_path, content | last)
    assert data.info(spec).input_shape == (3, 26, 25)
    assert torch.equal(tensor_split(data.load(spec).train).images, expected.images)
    grey = {key: content[key][:, 0, :16, :20] for key in ("x_train", "x_test")}
    spec = saved(tmp_path, content | grey)
    assert data.info(spec).input_shape == (1, 16, 20)
    split = tensor_split(data.load(spec).train)
    assert torch.equal(split.images, expected.images[:, :1, :16, :20])
    assert (split.padding, split.flips) == (2, False)


def test_npz_floats_stay_as_they_are(tmp_path: Path) -> None:
    values = {
        key: np.random.default_rng(1).normal(size=(n, 1, 24, 24))
        for key, n in (("x_train", 40), ("x_test", 8))
    }
    own = data.load(saved(tmp_path, arrays(**values)), validation=0)
    ((x, y),) = own.train.shuffled(40, seed=0, epoch=0)
    assert x.dtype == torch.float32
    whole = torch.from_numpy(values["x_train"]).float()
    ((plain, _),) = own.train.ordered(40)
    assert torch.equal(plain, whole)
    assert torch.equal(x.sum((1, 2, 3)).sort().values, whole.sum((1, 2, 3)).sort().values)
    assert y.bincount().tolist() == [10, 10, 10, 10]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.arange(39) % 4}, "x_train has 40 images but y_train 39 labels"),
        ({"y_test": np.arange(9) % 4}, "x_test has 8 images but y_test 9 labels"),
        ({"y_train": np.arange(40) % 4 - 1}, "y_train holds the label -1; labels count from 0"),
        ({"y_train": np.arange(40) % 4 * 2}, "y_train has no label 1 but has 6"),
        ({"y_train": np.zeros(40, int)}, "one class only"),
        ({"y_test": np.arange(8)}, "y_test holds the label 7; the classes are 0 to 3"),
        ({"y_test": np.arange(8) - 1}, "y_test holds the label -1"),
        ({"y_train": np.zeros(40)}, "y_train is float64 of shape (40,); give N integers"),
        ({"y_test": np.zeros((8, 1), int)}, "y_test is int64 of shape (8, 1)"),
        ({"y_train": np.zeros(0, int)}, "y_train holds no labels; give one or more"),
        ({"x_train": np.zeros((40, 3, 26, 25), int)}, "x_train is int64; give uint8 or float32"),
        ({"x_train": np.zeros((40, 5), np.uint8)}, "x_train has shape (40, 5)"),
        ({"x_test": np.zeros((8, 3, 9, 9), np.uint8)}, "uint8 images of (3, 9, 9), x_train uint8"),
        ({"x_test": np.zeros((8, 3, 26, 25))}, "x_test holds float32 images"),
        ({"x_train": np.full((40, 3, 26, 25), np.nan)}, "x_train holds values that are not finite"),
        ({"x_train": np.array([{}] * 40)}, "Object arrays cannot be loaded"),
    ],
)
def test_npz_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    spec = saved(tmp_path, arrays(**changes))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        data.load(spec)
    assert str(tmp_path / "own.npz") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["x_train", "y_train", "x_test", "y_test"])
def test_npz_without_a_key(tmp_path: Path, key: str) -> None:
    content = arrays()
    del content[key]
    spec = saved(tmp_path, content)
    for ask in (data.info, data.load):
        with pytest.raises(ValueError, match=f"own.npz: {key} not in the file"):
            ask(spec)


def test_npz_absent_truncated_and_foreign(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.npz' does not exist"):
        data.load(f"npz:{tmp_path / 'none.npz'}")
    spec = saved(tmp_path, arrays())
    file = tmp_path / "own.npz"
    content = bytearray(file.read_bytes())
    content[5000] ^= 255
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"own.npz: Bad CRC-32"):
        data.load(spec)
    file.write_bytes(content[:1000])
    for ask in (data.info, data.load):
        with pytest.raises(ValueError, match=r"own.npz: File is not a zip file"):
            ask(spec)


def test_npz_info_reads_no_pixel(tmp_path: Path) -> None:
    saved(tmp_path, arrays())
    file = tmp_path / "own.npz"
    content = bytearray(file.read_bytes())
    content[5000] ^= 255  # damage in x_train, which reading it would find
    file.write_bytes(content)
    assert npz_info(file).num_classes == 4


def test_from_tensors_takes_names_and_settings() -> None:
    images = torch.randint(0, 256, (30, 3, 32, 32), dtype=torch.uint8)
    labels = torch.arange(30) % 3
    own = data.from_tensors(
        (images, labels),
        (images[:6], labels[:6]),
        validation=0.2,
        name="own",
        classes=("a", "b", "c", "never seen"),
        mean=(1.0, 2.0, 3.0),
        std=(4.0, 5.0, 6.0),
        padding=0,
        flips=False,
    )
    assert own.info == data.Info(
        name="own",
        input_shape=(3, 32, 32),
        num_classes=4,
        classes=("a", "b", "c", "never seen"),
    )
    ((x, _),) = own.test.ordered(6)
    assert torch.allclose(x[:, 1], (images[:6, 1].float() - 2) / 5)
    with pytest.raises(ValueError, match="y_train holds the label 2; the classes are 0 to 1"):
        data.from_tensors((images, labels), (images, labels), classes=("a", "b"))


def test_from_tensors_refuses_what_it_cannot_use() -> None:
    images, labels = torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    for bad, message in (
        ((images.int(), labels), "x_test is int32; give uint8 or float32"),
        ((images, labels.float()), "y_test is float32 of shape"),
        ((images[:0], labels[:0]), "x_test holds no images; give one or more"),
    ):
        with pytest.raises(ValueError, match=message):
            data.from_tensors((images, labels), bad)


def test_a_channel_of_one_value_does_not_divide_by_zero() -> None:
    images, labels = torch.full((4, 1, 8, 8), 9, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    own = data.from_tensors((images, labels), (images, labels), validation=0)
    ((x, _),) = own.test.ordered(4)
    assert x.unique().tolist() == [0.0]  # type: ignore[no-untyped-call]


def test_arrays_and_lists_are_as_good_as_tensors() -> None:
    images = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8)
    labels = torch.tensor([0, 1, 0, 1, 0, 1])
    wanted = data.from_tensors((images, labels), (images, labels))
    frozen = images.numpy().copy()
    frozen.flags.writeable = False
    for x, y in (
        (frozen, labels.numpy().astype(np.int32)),
        (list(images), labels.tolist()),
        (images.numpy()[:, :, ::-1, ::-1][:, :, ::-1, ::-1], tuple(labels.tolist())),
    ):
        found = data.from_tensors((x, y), (x, y))
        assert found.info == wanted.info
        assert torch.equal(tensor_split(found.test).images, images)
        assert torch.equal(found.test.labels, labels)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (
            np.zeros((4, 16, 16, 3), np.uint8),
            [0, 1] * 2,
            "the channels last; give (N, C, H, W), as x",
        ),
        (
            torch.zeros(4, 16, 16, 3),
            [0, 1] * 2,
            "x_train has shape (4, 16, 16, 3), the channels last",
        ),
        ([[1, 2], [3]], [0, 1], "x_train is list that makes no tensor; give a tensor or an array"),
        (np.zeros((4, 1, 8, 8)), ["a", "b"] * 2, "y_train is list that makes no tensor"),
        (7, [0, 1], "x_train is int that makes no tensor"),
        (np.zeros((4, 1, 8, 8)), 7, "y_train is int that makes no tensor"),
        (np.zeros((0, 1, 8, 8)), [], "x_train holds no images; give one or more"),
        (np.zeros((4, 1, 8, 8)), [], "y_train holds no labels; give one or more"),
    ],
)
def test_what_makes_no_images(images: Any, labels: Any, message: str) -> None:
    test = torch.zeros(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])
    with pytest.raises(ValueError, match=re.escape(message)):
        data.from_tensors((images, labels), test)


def test_images_of_another_scale_are_refused() -> None:
    images, labels = torch.rand(8, 1, 8, 8), torch.arange(8) % 2
    with pytest.raises(
        ValueError, match=r"x_train reach [.\d]+, of x_test 2\d\d.*; scale both alike"
    ):
        data.from_tensors((images, labels), (255 * images, labels))
    with pytest.raises(ValueError, match="scale both alike"):
        data.from_tensors((255 * images, labels), (images, labels))
    data.from_tensors((images, labels), (5 * images, labels))  # this may be chance
    data.from_tensors((images, labels), (0 * images, labels))


def test_a_dataset_is_printed_in_a_line() -> None:
    digits = data.load("digits")
    assert repr(digits) == (
        "Dataset(digits: 1366 training, 72 validation and 359 test images of 1x16x16, 10 classes)"
    )
    assert repr(digits.test) == "TensorSplit(359 images)"


def test_a_folder_is_no_npz_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a folder; give the npz file, or folder:PATH"):
        data.load(f"npz:{tmp_path}")
    empty = saved(tmp_path, arrays(y_train=np.zeros(0, int), x_train=np.zeros((0, 3, 26, 25))))
    for read in (data.load, data.info):
        with pytest.raises(ValueError, match="y_train holds no labels; give one or more"):
            read(empty)
