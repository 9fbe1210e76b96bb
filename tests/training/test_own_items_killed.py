"""A training on a user's own dataset, with workers, whose process is killed and that goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from safetensors.torch import load_file

# what an item draws at random differs from epoch to epoch, and the weights tell
SCRIPT = """
import os, random, signal, sys
import numpy, torch
import torch.nn.functional as F
from torch import nn
import transformable as tas
from transformable.runs.run_folder import Run

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, i):
        noise = torch.rand(1, 4, 4) + numpy.random.rand() + random.random()
        return noise.float(), torch.tensor([i / 40])

def objective(model, batch):
    objective.steps += model.training
    if objective.steps == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    return F.mse_loss(model(batch[0]), batch[1])

objective.steps = 0
torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(),
    nn.Linear(16, 1),
)
score = lambda model, batch: -F.mse_loss(model(batch[0]), batch[1])
data = tas.data.from_datasets(
    Noisy(), Noisy(), workers=int(sys.argv[2]), objective=objective, score=score, validation=0
)
with Run.open(sys.argv[1], {}) as run:
    session = tas.Session(run=run, checkpoint_seconds=0)
    tas.train(net, data, tas.Training(epochs=3, batch_size=8, lr=0.05), session)
"""


def train(folder: Path, workers: int, kill_at: int = -1) -> int:
    command = [sys.executable, "-c", SCRIPT, str(folder), str(workers), str(kill_at)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, timeout=300).returncode


def test_the_same_bits_after_a_kill(tmp_path: Path) -> None:
    assert train(tmp_path / "whole", workers=0) == 0
    # after 2, 6 and 12 of the 15 steps: each process counts its own
    for kill_at in (3, 5, 7):
        assert train(tmp_path / "killed", workers=2, kill_at=kill_at) == -signal.SIGKILL
    assert train(tmp_path / "killed", workers=2) == 0
    whole, killed = (
        load_file(tmp_path / name / "model.safetensors") for name in ("whole", "killed")
    )
    assert whole.keys() == killed.keys()
    assert all((whole[name] == killed[name]).all() for name in whole)
