"""Checkpoints that were cut or altered are noticed, and the one before is used."""

import hashlib
import os
import re
import resource
import signal
from pathlib import Path

import pytest
import torch

from transformable.runs import checkpoint_file
from transformable.runs.checkpoint_file import read_checkpoint, write_checkpoint
from transformable.runs.run_folder import Run


def saved(folder: Path, *steps: int) -> bytes:
    for step in steps:
        write_checkpoint(folder, {"step": step, "weights": torch.full((50,), float(step))})
    return (folder / "checkpoint.pt").read_bytes()


def step_of(folder: Path) -> int:
    state = read_checkpoint(folder)
    assert state is not None
    assert torch.equal(state["weights"], torch.full((50,), float(state["step"])))
    return int(state["step"])


def test_the_last_and_the_one_before_are_kept(tmp_path: Path) -> None:
    assert read_checkpoint(tmp_path) is None
    saved(tmp_path, 1, 2, 3)
    assert step_of(tmp_path) == 3
    assert sorted(os.listdir(tmp_path)) == ["checkpoint.previous.pt", "checkpoint.pt"]
    # what is behind the archive does not disturb torch
    assert torch.load(tmp_path / "checkpoint.pt")["step"] == 3
    assert torch.load(tmp_path / "checkpoint.previous.pt")["step"] == 2
    # killed between the two changes of names
    (tmp_path / "checkpoint.pt").unlink()
    assert step_of(tmp_path) == 2


def test_cut_at_every_sixteenth(tmp_path: Path) -> None:
    for sixteenth in range(16):
        content = saved(tmp_path, 1, 2)
        (tmp_path / "checkpoint.pt").write_bytes(content[: len(content) * sixteenth // 16])
        with pytest.warns(
            UserWarning, match=r"checkpoint.pt is damaged \(it is cut off.*before it"
        ):
            assert step_of(tmp_path) == 1
        # the whole one has taken its place: the next one that is written must not replace it
        assert os.listdir(tmp_path) == ["checkpoint.pt"]


def test_every_flipped_byte(tmp_path: Path) -> None:
    content = saved(tmp_path, 1, 2)
    seal = content.rindex(b"\ntransformable")
    # every byte of the seal, and many of what is in front of it
    for place in (*range(0, seal, 37), *range(seal, len(content))):
        altered = bytearray(content)
        altered[place] ^= 1 + place % 255
        (tmp_path / "checkpoint.pt").write_bytes(altered)
        with pytest.raises(checkpoint_file.DamagedError):
            checkpoint_file._read(tmp_path / "checkpoint.pt")


def test_both_damaged(tmp_path: Path) -> None:
    saved(tmp_path, 1, 2)
    for name in ("checkpoint.pt", "checkpoint.previous.pt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match="remove both to start this run again") as caught:
        read_checkpoint(tmp_path)
    assert f"{tmp_path}/checkpoint.pt is damaged" in str(caught.value)
    assert f"{tmp_path}/checkpoint.previous.pt is damaged" in str(caught.value)
    (tmp_path / "checkpoint.previous.pt").unlink()
    with pytest.raises(ValueError, match=r"checkpoint.pt is damaged .*remove it to start"):
        read_checkpoint(tmp_path)


def test_one_of_another_version_is_refused_though_the_one_before_is_not(tmp_path: Path) -> None:
    content = saved(tmp_path, 1, 2)
    body = re.sub(rb"checkpoint 1 sha256 \w+\n$", b"checkpoint 7 sha256 ", content)
    digest = hashlib.sha256(body).hexdigest()
    (tmp_path / "checkpoint.pt").write_bytes(body + f"{digest}\n".encode())
    with pytest.raises(
        ValueError, match=r"has version 7 of checkpoints, .* reads 1; use the other"
    ):
        read_checkpoint(tmp_path)


def test_a_disk_that_is_full_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", {}) as run:
        run.start()
        run.save_checkpoint({"step": 1})
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
        try:
            with pytest.raises(
                ValueError, match=r"checkpoint.pt: File too large; the checkpoint b"
            ):
                run.save_checkpoint({"step": 2, "weights": torch.zeros(10_000)})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)
        assert run.checkpoint() == {"step": 1}
    assert sorted(os.listdir(tmp_path / "run")) == [".lock", "checkpoint.pt", "config.toml"]
