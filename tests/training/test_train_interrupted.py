"""``tas train`` in a process of its own that is interrupted, and goes on."""

import csv
import json
import os
import random
import signal
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from support.command_process import start as start_command
from support.command_process import wait_for
from support.dropout_network import write_files

# A step takes 20 ms and a run a second, so that a blow within 0.25 s hits it. Dropout and
# batch norm make the bits depend on all that has to be restored.
NET = """
import time
from torch import nn

class Slow(nn.Sequential):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)

def net(num_classes, in_channels):
    return Slow(
        nn.Conv2d(in_channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, num_classes),
    )
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed")
    write_files(path, images=96, net=NET)
    return path


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    """The run that nobody disturbs."""
    process = start(folder, "whole")
    process.join()
    assert process.exitcode == 0
    return folder / "whole"


def start(folder: Path, out: str) -> BaseProcess:
    options = ("--model=net.py:net", "--data=npz:tiny.npz", "--epochs=4", "--batch-size=8")
    return start_command(folder, out, "train", *options)


@pytest.fixture
def moments(request: pytest.FixtureRequest) -> Iterator[float]:
    """Seconds to wait before the next blow, the same in each run of the tests."""
    dice = random.Random(str(request.node.name))
    return (dice.uniform(0, 0.25) for _ in iter(int, 1))


def assert_equal_runs(run: Path, whole: Path) -> None:
    weights = [(path / "model.safetensors").read_bytes() for path in (run, whole)]
    assert weights[0] == weights[1]
    rows = [
        list(csv.DictReader((path / "metrics.csv").read_text().splitlines()))
        for path in (run, whole)
    ]
    assert len(rows[0]) == 4
    for mine, other in zip(*rows, strict=True):
        for clock in ("seconds", "samples_per_second"):
            del mine[clock], other[clock]
        assert mine == other


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(
    folder: Path, whole: Path, moments: Iterator[float], number: signal.Signals
) -> None:
    name = f"run-{number.name}"
    process = start(folder, name)
    wait_for(folder / name / "checkpoint.pt", process)
    time.sleep(next(moments))
    assert process.pid is not None
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode == 130
    assert (folder / f"{name}.out").read_text() == ""
    said = (folder / f"{name}.err").read_text()
    assert said.startswith("tas: interrupted, stopped after step ")
    assert said.endswith("; run the same command again to continue\n")
    assert said.count("\n") == 1

    process = start(folder, name)
    process.join()
    assert process.exitcode == 0
    assert_equal_runs(folder / name, whole)
    assert json.loads((folder / f"{name}.out").read_text())["n"] == 96


def test_a_second_process_is_refused(folder: Path) -> None:
    first = start(folder, "busy")
    wait_for(folder / "busy" / "checkpoint.pt", first)
    second = start(folder, "busy")
    second.join()
    first.kill()
    first.join()
    assert second.exitcode == 2
    assert (folder / "busy.err").read_text() == (
        "tas: error: run folder busy is in use by another process; wait for it, "
        "or choose another --out\n"
    )
