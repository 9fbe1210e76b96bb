"""The files that a search keeps in its run folder."""

import json
import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import transformable as tas
from support.searches import alternating_search
from transformable.data import Dataset, from_tensors
from transformable.runs.progress import Progress
from transformable.runs.run_folder import Run
from transformable.searching.search import Searched, search
from transformable.training import epoch_log
from transformable.training.interrupts import Interrupted
from transformable.training.session import Session

SETTINGS = alternating_search(epochs=3, batch_size=4)
STEPS = 3 * 5  # 20 images in each half


@pytest.fixture
def dataset() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(40, 3, 8, 8, generator=generator)
    return from_tensors((x, torch.arange(40) % 2), (x, torch.arange(40) % 2), validation=0)


def network() -> nn.Module:
    torch.manual_seed(0)
    return tas.models.build("resnet20", num_classes=2)


def run_search(folder: Path, dataset: Dataset, stop_at: int = 0) -> Searched:
    class Stopping(Progress):
        def advance(self, done: int) -> None:
            if done == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)

    with Run.open(folder, {}) as run:
        return search(network(), dataset, 0.5, SETTINGS, Session(run=run, progress=Stopping()))


def test_what_is_kept(tmp_path: Path, dataset: Dataset) -> None:
    found = run_search(tmp_path / "run", dataset)
    space = tas.Space.trace(network(), dataset.info.input_shape)
    candidates = json.loads((tmp_path / "run" / "candidates.json").read_text())
    assert candidates == {n: list(c) for n, c in (*space.widths.items(), *space.depths.items())}
    assert (tmp_path / "run" / "shape.json").read_text() == found.shape.to_json() + "\n"
    lines = (tmp_path / "run" / "steps.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in lines] == ["step", *map(str, range(1, STEPS + 1))]


@pytest.mark.parametrize("stop_at", [1, 5, 8, STEPS])
def test_interrupted_it_continues_to_the_same_files(
    tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    monkeypatch.setattr(epoch_log, "FLUSH_EVERY", 2)  # lines that no checkpoint knows
    whole = run_search(tmp_path / "whole", dataset)
    with pytest.raises(Interrupted, match=f"stopped after step {stop_at}$"):
        run_search(tmp_path / "run", dataset, stop_at)
    with (tmp_path / "run" / "steps.csv").open("a") as file:
        file.write("a line of a killed process\n")
    again = run_search(tmp_path / "run", dataset)
    for name in ("candidates.json", "distributions.jsonl", "shape.json", "steps.csv"):
        assert (tmp_path / "run" / name).read_text() == (tmp_path / "whole" / name).read_text()
    histories = [
        [{key: value for key, value in row.items() if key != "seconds"} for row in each.history]
        for each in (again, whole)
    ]
    assert histories[0] == histories[1]


def test_other_sizes_are_refused(tmp_path: Path, dataset: Dataset) -> None:
    run_search(tmp_path / "run", dataset)
    model = network()
    space = tas.Space.trace(model, (3, 8, 8), search="width")
    words = "run belongs to a search over other sizes; choose another --out"
    with Run.open(tmp_path / "run", {}) as run, pytest.raises(ValueError, match=words):
        search(model, dataset, 0.5, SETTINGS, Session(run=run), space=space)
