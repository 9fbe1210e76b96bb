"""CIFAR in all the forms it comes in, whole, damaged and hostile."""

import hashlib
import io
import pickle
import re
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from transformable import data
from transformable.data import cifar

RECORDS = 20
NAMES = ["cifar10", "cifar100"]
File = tuple[NDArray[np.uint8], list[int]]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The official layout with 20 images a file; the url leads nowhere."""
    for name in NAMES:
        official = cifar.SETS[name]
        monkeypatch.setitem(
            cifar.SETS,
            name,
            replace(
                official,
                records=dict.fromkeys(official.records, RECORDS),
                url="file:///nowhere/at/all.tar.gz",
            ),
        )


def files(name: str) -> dict[str, File]:
    """Pixels (N, 3072) and labels by file, all different."""
    about = cifar.SETS[name]
    random = np.random.default_rng(len(name))
    return {
        file: (
            random.integers(0, 256, (RECORDS, 3072), dtype=np.uint8),
            random.integers(0, len(about.classes), RECORDS).tolist(),
        )
        for file in (*about.train, about.test)
    }


def binary(name: str, file: File) -> bytes:
    coarse = b"\x13" if name == "cifar100" else b""
    return b"".join(
        coarse + bytes([label]) + pixels.tobytes() for pixels, label in zip(*file, strict=True)
    )


def write_binary(name: str, folder: Path) -> dict[str, File]:
    made = files(name)
    folder.mkdir(parents=True, exist_ok=True)
    for key, file in made.items():
        (folder / f"{key}.bin").write_bytes(binary(name, file))
    return made


def as_dict(name: str, file: File) -> dict[Any, Any]:
    pixels, labels = file
    content = {
        b"batch_label": b"batch 1 of 5",
        cifar.SETS[name].label_key.encode(): labels,
        b"data": pixels,
        b"filenames": [b"a.png"] * RECORDS,
    }
    return content | ({b"coarse_labels": [0] * RECORDS} if name == "cifar100" else {})


def write_archive(name: str, path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def official_members(name: str) -> dict[str, bytes]:
    folder = cifar.SETS[name].binary_folder
    listed = {f"{folder}/{key}.bin": binary(name, file) for key, file in files(name).items()}
    return {f"{folder}/readme.html": b"hello"} | listed


def check_loaded(name: str, made: dict[str, File], directory: Path, **arguments: Any) -> None:
    loaded = data.load(name, directory, validation=0, **arguments)
    about = cifar.SETS[name]
    assert loaded.info == data.info(name)
    for split, keys in ((loaded.train, about.train), (loaded.test, (about.test,))):
        assert isinstance(split, data.TensorSplit)
        pixels = np.concatenate([made[key][0] for key in keys])
        # a record is the red plane, the green and the blue, each row by row
        assert split.images[3, 2, 5, 7] == pixels[3, 2 * 1024 + 5 * 32 + 7]
        assert np.array_equal(split.images.numpy().reshape(-1, 3072), pixels)
        assert split.labels.tolist() == [label for key in keys for label in made[key][1]]
        assert split.labels.dtype == torch.int64
        assert (split.padding, split.flips) == (4, True)


@pytest.mark.parametrize("name", NAMES)
def test_info_needs_no_files(name: str) -> None:
    about = data.info(name, "/does/not/exist")
    assert about.input_shape == (3, 32, 32)
    assert about.num_classes == len(set(about.classes)) == int(name[5:])
    assert list(about.classes) == sorted(about.classes)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("inside", [False, True])
def test_binary_files(name: str, inside: bool, tmp_path: Path) -> None:
    folder = tmp_path / cifar.SETS[name].binary_folder if inside else tmp_path
    check_loaded(name, write_binary(name, folder), tmp_path)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_python_files(name: str, protocol: int, tmp_path: Path) -> None:
    made = files(name)
    folder = tmp_path / cifar.SETS[name].python_folder
    folder.mkdir()
    for key, file in made.items():
        (folder / key).write_bytes(pickle.dumps(as_dict(name, file), protocol=protocol))
    check_loaded(name, made, tmp_path)
    check_loaded(name, made, folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({b"data": np.zeros((19, 3072), np.uint8)}, "found (19, 3072) and (20,)"),
        ({b"labels": [0] * 21}, "found (20, 3072) and (21,)"),
        ({b"labels": [0] * 19 + [10]}, "holds the label 10; there are 10 classes"),
        ({b"labels": [0] * 19 + [-1]}, "holds the label -1; there are 10 classes"),
        ({b"labels": [b"a"] * 20}, "labels of"),
        ({b"data": np.zeros((20, 3072), np.int64)}, "no 'data' of uint8 pixels"),
        ({b"data": b"abc"}, "no 'data' of uint8 pixels"),
    ],
)
def test_python_files_of_wrong_content(
    change: dict[bytes, Any], message: str, tmp_path: Path
) -> None:
    for key, file in files("cifar10").items():
        (tmp_path / key).write_bytes(pickle.dumps(as_dict("cifar10", file) | change))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        data.load("cifar10", tmp_path)
    assert str(tmp_path / "data_batch_1") in str(caught.value)


@pytest.mark.parametrize(("name", "file"), [("cifar10", "data_batch_3"), ("cifar100", "test")])
def test_truncated_binary_file(name: str, file: str, tmp_path: Path) -> None:
    write_binary(name, tmp_path)
    path = tmp_path / f"{file}.bin"
    whole = path.stat().st_size
    for content in (path.read_bytes()[:-1], path.read_bytes() + b"\0", b""):
        path.write_bytes(content)
        message = f"{path} should have {whole} bytes, found {len(content)};"
        with pytest.raises(ValueError, match=re.escape(message)):
            data.load(name, tmp_path)


def test_truncated_python_file(tmp_path: Path) -> None:
    for key, file in files("cifar10").items():
        content = pickle.dumps(as_dict("cifar10", file), protocol=2)
        (tmp_path / key).write_bytes(content[:5000] if key == "test_batch" else content)
    with pytest.raises(ValueError, match=r"test_batch \(5000 bytes\) .* truncated"):
        data.load("cifar10", tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write_binary("cifar10", tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(ValueError, match=r"data_batch_4\.bin is missing"):
        data.load("cifar10", tmp_path)


@pytest.mark.parametrize(("name", "offset", "label"), [("cifar10", 0, 10), ("cifar100", 1, 100)])
def test_binary_label_outside_the_classes(
    name: str, offset: int, label: int, tmp_path: Path
) -> None:
    write_binary(name, tmp_path)
    path = tmp_path / f"{cifar.SETS[name].train[0]}.bin"
    content = bytearray(path.read_bytes())
    content[offset] = label
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"\.bin holds the label {label}; there are {label} cl"):
        data.load(name, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_archive_is_read_by_name_and_not_extracted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / cifar.SETS[name].archive
    members = {"../outside.bin": b"x", "data_batch_1.bin": b"x"} | official_members(name)
    sha256 = write_archive(name, archive, members)
    monkeypatch.setitem(cifar.SETS, name, replace(cifar.SETS[name], sha256=sha256))
    check_loaded(name, files(name), tmp_path)
    assert list(tmp_path.iterdir()) == [archive]
    assert not (tmp_path.parent / "outside.bin").exists()


def test_archive_with_another_sha256_is_not_opened(tmp_path: Path) -> None:
    archive = tmp_path / cifar.SETS["cifar10"].archive
    found = write_archive("cifar10", archive, official_members("cifar10"))
    with pytest.raises(ValueError, match=f"has sha256 {found}, expected c4a38c50a1bc"):
        data.load("cifar10", tmp_path)


def test_archive_with_a_short_a_missing_or_a_linked_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / cifar.SETS["cifar10"].archive
    name = "cifar-10-batches-bin/data_batch_2.bin"
    members = official_members("cifar10")

    def refused(message: str) -> None:
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        monkeypatch.setitem(cifar.SETS, "cifar10", replace(cifar.SETS["cifar10"], sha256=sha256))
        with pytest.raises(ValueError, match=re.escape(message)):
            data.load("cifar10", tmp_path)

    write_archive("cifar10", archive, members | {name: members[name][:-5]})
    refused(f"{archive}/{name} should have 61460 bytes, found 61455")
    del members[name]
    write_archive("cifar10", archive, members)
    refused(f"{archive} lacks {name}")
    with tarfile.open(archive, "w:gz") as made:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/hostname"
        made.addfile(entry)
    refused(name)


def test_absent_and_not_allowed_to_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = f"cifar10 is not in {str(tmp_path)!r}; fetch it there with --download or say"
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load("cifar10", tmp_path)
    monkeypatch.setenv("TRANSFORMABLE_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=re.escape(message)):
        data.load("cifar10")
    monkeypatch.delenv("TRANSFORMABLE_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValueError, match=re.escape(str(tmp_path / ".cache" / "transformable"))):
        data.load("cifar10")


def test_download_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.tar.gz"
    sha256 = write_archive("cifar10", source, official_members("cifar10"))
    about = replace(cifar.SETS["cifar10"], sha256=sha256, url=source.as_uri())
    monkeypatch.setitem(cifar.SETS, "cifar10", about)
    directory = tmp_path / "new" / "place"
    check_loaded("cifar10", files("cifar10"), directory, download=True)
    assert [path.name for path in directory.iterdir()] == ["cifar-10-binary.tar.gz"]
    source.unlink()
    check_loaded("cifar10", files("cifar10"), directory, download=True)


def test_download_of_another_file_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.tar.gz"
    source.write_bytes(b"something else")
    about = replace(cifar.SETS["cifar10"], url=source.as_uri())
    monkeypatch.setitem(cifar.SETS, "cifar10", about)
    with pytest.raises(
        ValueError, match=r"source\.tar\.gz came as 14 bytes with sha256 .* c4a38c5"
    ):
        data.load("cifar10", tmp_path / "there", download=True)
    assert list((tmp_path / "there").iterdir()) == []


def test_download_that_fails_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot download file:///nowhere") as caught:
        data.load("cifar10", tmp_path, download=True)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ValueError, match=r"cannot download .* to .*file"):
        data.load("cifar10", tmp_path / "file" / "below", download=True)


def test_official_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    ten, hundred = cifar.SETS["cifar10"], cifar.SETS["cifar100"]
    assert sum(ten.records.values()) == sum(hundred.records.values()) == 60_000
    assert ten.url == "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert hundred.url == "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
    assert ten.sha256 == "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
    assert hundred.sha256 == "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"


def test_images_averaged_to_a_smaller_size(tmp_path: Path) -> None:
    made = write_binary("cifar10", tmp_path)
    loaded = data.load("cifar10:16", tmp_path, validation=0)
    assert loaded.info.input_shape == data.info("cifar10:16").input_shape == (3, 16, 16)
    assert loaded.info.name == data.info("cifar10:16").name == "cifar10:16"
    pixels = made["test_batch"][0].reshape(-1, 3, 16, 2, 16, 2).mean((3, 5))
    [(images, labels)] = loaded.test.ordered(RECORDS)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (loaded.info.mean, loaded.info.std))
    assert labels.tolist() == made["test_batch"][1]
    # to a half, because averages are rounded
    assert (images * std + mean - torch.from_numpy(pixels)).abs().max() <= 0.501


@pytest.mark.parametrize("size", ["17", "0", "x", "32"])
def test_sizes_that_images_cannot_be_averaged_to(size: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be averaged to '{size}'; give 4, 8, 16"):
        data.info(f"cifar10:{size}")
