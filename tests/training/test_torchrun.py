"""Two processes that torchrun has started do what one does."""

import csv
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from transformable.cli.entry import main

# without batch norm, whose statistics each process has of its own part of the batch
NET = """
from torch import nn

def net(num_classes, in_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, num_classes),
    )
"""

SEARCH = """
import copy
import json
import sys
from pathlib import Path
import torch
from dataclasses import replace
from lightning_fabric import Fabric
from torch import nn
from transformable import Distilling, Space, Training, prune
from transformable.data import from_tensors
from transformable.costing.budget import Budget
from transformable.presets import alternating
from transformable.searching import search_step
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep
from transformable.training.processes import average_statistics


def searched(fabric, norm=nn.Identity, batch=8, tampered=False):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), norm(8), nn.ReLU(), nn.Conv2d(8, 8, 3), norm(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    ).double()
    space = Space.trace(net.float(), (3, 8, 8))
    net.double()
    settings = replace(alternating(), epochs=2, batch_size=batch, warmup_epochs=0.5)
    supernet = make_supernet(net, space, settings, 0).double()
    step = SearchStep(supernet, Budget.of(0.5, space), settings, 10, fabric)
    own, drawn = slice(fabric.global_rank, None, fabric.world_size), []
    draw = supernet.draw
    def record():
        found = draw()
        drawn.append(found.candidates.tolist())
        return found
    supernet.draw = record
    if tampered and fabric.global_rank == 1:
        seeds = search_step.generator
        search_step.generator = lambda purpose, seed, *key: seeds(purpose, seed + 1, *key)
    for number in range(20):
        random = torch.Generator().manual_seed(number)
        x = torch.randn(2, batch, 3, 8, 8, generator=random, dtype=torch.float64)
        y = torch.randint(3, (2, batch), generator=random)
        step(number, 0, (x[0, own], y[0, own]), (x[1, own], y[1, own]))
        step.drawn.after_step(number + 1)
    own = copy.deepcopy(supernet.state_dict())
    average_statistics(fabric, supernet)
    return supernet.state_dict(), drawn, own


if __name__ == "__main__":
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    out = Path(sys.argv[1])
    torch.save(searched(fabric), out / f"two{fabric.global_rank}.pt")
    torch.save(searched(fabric, nn.BatchNorm2d, 128), out / f"norm{fabric.global_rank}.pt")
    try:
        searched(fabric, tampered=True)
    except ValueError as error:
        (out / f"caught{fabric.global_rank}").write_text(str(error))
    # the whole job, and again: then all of it is found
    images = torch.linspace(0, 1, 40 * 36).reshape(40, 1, 6, 6), torch.arange(40) % 2
    short = {"epochs": 1, "batch_size": 10}
    settings = {"training": Training(**short), "distilling": Distilling(**short)}
    torch.manual_seed(fabric.global_rank)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    net.load_state_dict(fabric.broadcast(net.state_dict()))
    data = from_tensors(images, images)
    for time in range(2):
        job = prune(net, data, method="uniform", out=out / "job", fabric=fabric, **settings)
        found = job.model.state_dict(), json.dumps(job.summary)
        torch.save(found, out / f"job{fabric.global_rank}{time}.pt")
"""


def torchrun(*arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", *options]
    return [*launcher, "--nproc-per-node=2", *arguments]


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    images = np.random.default_rng(0).integers(0, 256, (65, 8, 8), dtype=np.uint8)
    labels = np.arange(65) % 3
    np.savez(tmp_path / "tiny.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    (tmp_path / "net.py").write_text(NET)
    return [
        "train",
        f"--model={tmp_path}/net.py:net",
        f"--data=npz:{tmp_path}/tiny.npz",
        "--batch-size=8",
        "--device=cpu",
        "--json",
    ]


def test_all_processes_are_used_and_a_finished_run_ends_at_once(
    tmp_path: Path, arguments: list[str]
) -> None:
    shown = []
    for _ in range(2):  # the second finds the result
        done = subprocess.run(
            torchrun("-m", "transformable", *arguments, "--epochs=2", f"--out={tmp_path}/two"),
            env=ONE_THREAD,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        shown.append(json.loads(done.stdout))
    assert shown[0] == shown[1]
    assert shown[0]["n"] == 65  # each once, though two processes cannot share them evenly
    assert main([*arguments, "--epochs=2", f"--out={tmp_path}/one"]) == 0
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def test_what_two_processes_compute_is_what_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "searched_twice.py").write_text(SEARCH)
    done = subprocess.run(
        torchrun(str(tmp_path / "searched_twice.py"), str(tmp_path)),
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.syspath_prepend(str(tmp_path))
    from lightning_fabric import Fabric
    from searched_twice import searched  # type: ignore[import-not-found]

    state, drawn, _ = searched(Fabric(accelerator="cpu", devices=1))
    assert len(drawn) == 40
    for rank in range(2):
        theirs, sizes, _ = torch.load(tmp_path / f"two{rank}.pt", weights_only=True)
        assert sizes == drawn
        torch.testing.assert_close(theirs, state, rtol=0, atol=1e-10)
        caught = (tmp_path / f"caught{rank}").read_text()
        assert "the sizes drawn in steps 1 to 10 of process 1 differ" in caught
    # a batch norm sees one half of the batch in each process: they agree as samples do
    alone, drawn, _ = searched(Fabric(accelerator="cpu", devices=1), torch.nn.BatchNorm2d, 128)
    (first, sizes, own), (second, _, others) = (
        torch.load(tmp_path / f"norm{rank}.pt", weights_only=True) for rank in range(2)
    )
    assert sizes == drawn
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    statistics = [name for name in alone if "running" in name]
    assert len(statistics) == 4
    for name in statistics:
        assert not torch.equal(own[name], others[name])
        torch.testing.assert_close(first[name], (own[name] + others[name]) / 2)
        spread = alone[name.replace("mean", "var")].sqrt() if "mean" in name else alone[name]
        assert ((first[name] - alone[name]).abs() < 0.1 * spread).all(), name
    # both have what is in the one folder
    jobs = [
        torch.load(tmp_path / f"job{rank}{time}.pt", weights_only=True)
        for rank in range(2)
        for time in range(2)
    ]
    summary = json.loads((tmp_path / "job" / "result.json").read_text())
    for weights, said in jobs:
        assert json.loads(said) == summary
        torch.testing.assert_close(weights, jobs[0][0], rtol=0, atol=0)


def test_a_killed_process_ends_all_with_one_message(tmp_path: Path, arguments: list[str]) -> None:
    out = tmp_path / "killed"
    long = [*arguments, "--epochs=3000", "--checkpoint-seconds=0.1", f"--out={out}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "transformable", *long, "--devices=2"],
        env=ONE_THREAD,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not (out / "metrics.csv").exists() and time.monotonic() < until:
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), 9)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert said.count("tas: error") == 1
    assert "another process of this job has ended" in said
    saved = torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"]
    assert saved >= 7


# rank 1 kills itself in the first life of the job; rank 0 asks for a stop in the second, or without
# torchrun in the only one
ENDS = """
import os, signal

def step(first=[0]):
    first[0] += 1
    life, rank = os.environ.get("TORCHELASTIC_RESTART_COUNT", "1"), os.environ.get("RANK", "0")
    if life == "0" and rank == "1" and first[0] == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    if life == "1" and rank == "0" and first[0] == int(os.environ.get("STOP_AT", "0")):
        os.kill(os.getpid(), signal.SIGTERM)

class Ending(nn.ReLU):
    def forward(self, x):
        if self.training:
            step()
        return super().forward(x)
"""


def test_from_two_processes_to_one_to_two(
    tmp_path: Path,
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = [*arguments, "--epochs=6"]
    assert main([*arguments, f"--out={tmp_path}/one"]) == 0
    net = NET.replace("nn.ReLU()", "Ending()")
    (tmp_path / "net.py").write_text(net.replace("nn\n", f"nn\n{ENDS}", 1))
    out = [*arguments, "--checkpoint-seconds=0", f"--out={tmp_path}/moved"]
    ended = subprocess.run(
        torchrun("-m", "transformable", *out, options=("--max-restarts=1",)),
        env={**ONE_THREAD, "KILL_AT": "25", "STOP_AT": "8"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    # killed after step 20 was saved, started again by torchrun, stopped where all agree to
    assert "tas: interrupted, stopped after step 30;" in ended.stderr
    monkeypatch.setenv("STOP_AT", "8")
    capsys.readouterr()
    assert main(out) == 130
    stopped = re.search(r"stopped after step (\d+);", capsys.readouterr().err)
    assert stopped is not None
    assert 30 < int(stopped[1]) < 40
    monkeypatch.delenv("STOP_AT")
    done = subprocess.run(
        [sys.executable, "-m", "transformable", *out, "--devices=2"],
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    one, moved = (
        list(csv.DictReader((tmp_path / name / "metrics.csv").read_text().splitlines()))
        for name in ("one", "moved")
    )
    assert len(one) == 6
    for name in ("step", "train_accuracy", "validation_accuracy"):
        assert [row[name] for row in moved] == [row[name] for row in one]
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "moved")]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)
