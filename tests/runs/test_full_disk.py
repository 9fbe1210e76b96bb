"""A run folder on a disk that becomes full: what was saved stays whole, and the work goes on."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from transformable.cli.entry import main
from transformable.runs.checkpoint_file import read_checkpoint

# its checkpoint, with the momentum, takes 0.5 MB
NET = """
from torch import nn

def net(num_classes, in_channels):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64 * in_channels, 800), nn.ReLU(), nn.Linear(800, num_classes)
    )
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1.25 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1280k", "tmpfs", str(place)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here; test_checkpoint_file.py limits a file instead")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_without_room(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, (64, 8, 8), dtype=np.uint8)
    labels = np.arange(64) % 3
    np.savez(tmp_path / "tiny.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    (tmp_path / "net.py").write_text(NET)
    train = ["train", f"--model={tmp_path}/net.py:net", f"--data=npz:{tmp_path}/tiny.npz"]
    train += ["--epochs=4", "--batch-size=16", "--checkpoint-seconds=0"]
    assert main([*train, f"--out={tmp_path}/whole", "--json"]) == 0
    capsys.readouterr()

    # two checkpoints have room, and no third one before the first of them is gone
    assert main([*train, f"--out={disk}/run", "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"tas: error: cannot write {disk}/run/checkpoint.pt: No space left on device; "
        "the checkpoint before it is whole: when there is room, run the same command again to "
        "continue\n"
    )
    state = read_checkpoint(disk / "run")
    assert state is not None
    assert state["state"]["step"] == 2
    assert not list((disk / "run").glob(".*.part"))

    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
    assert main([*train, f"--out={disk}/run", "--json"]) == 0
    whole, gone_on = (
        load_file(folder / "model.safetensors") for folder in (tmp_path / "whole", disk / "run")
    )
    assert all((whole[name] == gone_on[name]).all() for name in whole)

    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    capsys.readouterr()
    assert main([*train, f"--out={disk}/other"]) == 2
    assert capsys.readouterr().err == (
        f"tas: error: cannot write to run folder {disk}/other: Read-only file system; choose "
        "another --out\n"
    )
    assert main(["evaluate", f"{disk}/run", f"--model={tmp_path}/net.py:net"]) == 0
