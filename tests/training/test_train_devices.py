"""Two processes train the network that one trains."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from transformable.cli.entry import main
from transformable.training.devices import devices_in_turn

# without batch norm, whose statistics each process has of its own part of the batch
NET = """
from torch import nn

def net(num_classes, in_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, num_classes),
    )
"""


def test_two_processes_do_what_one_does(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (65, 8, 8), dtype=np.uint8)
    labels = np.arange(65) % 3
    np.savez(tmp_path / "tiny.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    (tmp_path / "net.py").write_text(NET)
    arguments = [
        "train",
        f"--model={tmp_path}/net.py:net",
        f"--data=npz:{tmp_path}/tiny.npz",
        "--epochs=2",
        "--batch-size=8",
        "--device=cpu",
        "--checkpoint-seconds=0",
        "--json",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "transformable", *arguments, "--devices=2", f"--out={tmp_path}/two"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert main([*arguments, f"--out={tmp_path}/one"]) == 0

    (one, two) = (
        list(csv.DictReader((tmp_path / name / "metrics.csv").read_text().splitlines()))
        for name in ("one", "two")
    )
    assert len(one) == len(two) == 2
    for a, b in zip(one, two, strict=True):
        assert a["step"] == b["step"]
        assert a["train_accuracy"] == b["train_accuracy"]
        assert a["validation_accuracy"] == b["validation_accuracy"]
        np.testing.assert_allclose(float(a["train_loss"]), float(b["train_loss"]), rtol=1e-5)
        np.testing.assert_allclose(
            float(a["validation_loss"]), float(b["validation_loss"]), rtol=1e-5
        )
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def test_trials_take_the_gpus_in_turn_unless_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices_in_turn("auto", 3) == ["cuda:0", "cuda:1", "cuda:0"]
    assert devices_in_turn("cuda", 1) == ["cuda:0"]
    assert devices_in_turn("cuda:1", 2) == ["cuda:1", "cuda:1"]
    assert devices_in_turn("cpu", 2) == ["cpu", "cpu"]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices_in_turn("auto", 2) == ["auto", "auto"]
