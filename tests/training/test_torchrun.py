"""Two processes that torchrun has started do what one does."""

import json
import os
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
import sys
from pathlib import Path
import torch
from lightning_fabric import Fabric
from torch import nn
from transformable import Searching, Space
from transformable.costing.budget import Budget
from transformable.searching import search_step
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep


def searched(fabric, tampered=False):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    ).double()
    space = Space.trace(net.float(), (3, 8, 8))
    net.double()
    settings = Searching(epochs=2, batch_size=8)
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
        x = torch.randn(2, 8, 3, 8, 8, generator=random, dtype=torch.float64)
        y = torch.randint(3, (2, 8), generator=random)
        step(number, 0, (x[0, own], y[0, own]), (x[1, own], y[1, own]))
        step.drawn.after_step(number + 1)
    return supernet.state_dict(), drawn


if __name__ == "__main__":
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    out = Path(sys.argv[1])
    torch.save(searched(fabric), out / f"two{fabric.global_rank}.pt")
    try:
        searched(fabric, tampered=True)
    except ValueError as error:
        (out / f"caught{fabric.global_rank}").write_text(str(error))
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
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        shown.append(json.loads(done.stdout))
    assert shown[0] == shown[1]
    assert shown[0]["n"] == 65  # each once, though two processes cannot share them evenly
    assert main([*arguments, "--epochs=2", f"--out={tmp_path}/one"]) == 0
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("one", "two")]
    torch.testing.assert_close(*weights, rtol=1e-4, atol=1e-6)


def test_a_search_in_two_processes_is_one_with_twice_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "searched_twice.py").write_text(SEARCH)
    subprocess.run(
        torchrun(str(tmp_path / "searched_twice.py"), str(tmp_path)),
        env=ONE_THREAD,
        check=True,
        capture_output=True,
        timeout=100,
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    from lightning_fabric import Fabric
    from searched_twice import searched  # type: ignore[import-not-found]

    state, drawn = searched(Fabric(accelerator="cpu", devices=1))
    assert len(drawn) == 40
    for rank in range(2):
        theirs, sizes = torch.load(tmp_path / f"two{rank}.pt", weights_only=True)
        assert sizes == drawn
        torch.testing.assert_close(theirs, state, rtol=0, atol=1e-10)
        caught = (tmp_path / f"caught{rank}").read_text()
        assert "the sizes drawn in steps 1 to 10 of process 1 differ" in caught


def test_a_killed_process_ends_all_with_one_message_and_a_restart_goes_on(
    tmp_path: Path, arguments: list[str]
) -> None:
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

    again = [*arguments, "--epochs=3000", "--checkpoint-seconds=0.1", f"--out={out}"]
    alone = subprocess.Popen(
        [sys.executable, "-m", "transformable", *again],
        env=ONE_THREAD,
        stderr=subprocess.PIPE,
    )
    while alone.poll() is None and time.monotonic() < until + 60:
        time.sleep(0.1)
        if torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"] > saved:
            alone.terminate()
            break
    alone.communicate(timeout=60)
    assert alone.returncode == 130
    assert torch.load(out / "checkpoint.pt", weights_only=True)["state"]["step"] > saved
