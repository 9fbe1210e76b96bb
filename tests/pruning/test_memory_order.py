"""Networks that only work on images in plain memory order, as much published code does."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.searches import alternating_search
from transformable.cli.entry import main
from transformable.data import Dataset, from_tensors
from transformable.searching.search import search
from transformable.settings import Align
from transformable.training.distill import distill

IMPORTS = "import torch.nn.functional as F\nfrom torch import Tensor, nn"
SHORT: dict[str, Any] = {"epochs": 1, "batch_size": 20}


class LeNet(nn.Module):
    def __init__(self, num_classes: int = 4, in_channels: int = 3) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(in_channels, 8, 3), nn.Conv2d(8, 16, 3)
        self.bn = nn.BatchNorm2d(16)
        self.fc1, self.fc2 = nn.Linear(16 * 2 * 2, 24), nn.Linear(24, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.bn(self.conv2(x))), 2)
        x = x.view(x.size(0), -1)  # fails on channels-last memory
        out: Tensor = self.fc2(F.relu(self.fc1(x)))
        return out


@pytest.fixture
def data() -> Dataset:
    random = torch.Generator().manual_seed(0)
    images = torch.randn(60, 3, 14, 14, generator=random), torch.arange(60) % 4
    return from_tensors(images, images, validation=0.1)


@pytest.mark.parametrize("align", ["pad", "pool"])
def test_the_whole_job(data: Dataset, align: Align, tmp_path: Path) -> None:
    torch.manual_seed(0)
    pruned = tas.prune(
        LeNet(),
        data,
        budget=0.6,
        tolerance=0.1,
        training=tas.Training(**SHORT),
        searching=tas.Searching(**SHORT)
        if align == "pad"
        else alternating_search(**SHORT, select=4, align=align),
        distilling=tas.Distilling(**SHORT),
        out=tmp_path / "run",
    )
    before, after = pruned.summary["before"], pruned.summary["after"]
    assert 0.54 <= after["macs"] / before["macs"] <= 0.66
    loaded = tas.load(tmp_path / "run", model=LeNet())
    assert tas.evaluate(loaded, data)["accuracy"] == pytest.approx(after["accuracy"])


def test_each_step_by_itself(data: Dataset) -> None:
    net = LeNet()
    trained = tas.train(net, data, tas.Training(**SHORT))
    x, y = next(data.test.ordered(60))
    with torch.no_grad():
        accuracy = (net.eval()(x.contiguous()).argmax(1) == y).float().mean().item()
    assert trained.accuracy == pytest.approx(accuracy)
    assert tas.evaluate(net, data)["accuracy"] == pytest.approx(accuracy)
    found = search(net, data, 0.6, tas.Searching(**SHORT))
    student = tas.slim(net, tas.Space.trace(net, (3, 14, 14)), found.shape)
    assert distill(student, data, tas.Distilling(**SHORT), teacher=net).n == 60


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(f"{IMPORTS}\n\n{inspect.getsource(LeNet)}")
    named = ["--model=net.py:LeNet", "--data=digits", "--json"]

    def answer(*arguments: str) -> dict[str, Any]:
        assert main(arguments) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    trained = answer("train", *named, "--epochs=1", "--out=run")
    assert answer("evaluate", "run", "--trust", "--json")["accuracy"] == trained["accuracy"]
    assert answer("export", "run", "--trust", "--json")["checked"] == 359
    assert answer("latency", *named)["latency_ms"] > 0
    assert answer("prune", *named, "--budget=0.6", "--dry-run")["seconds"] > 0


def test_other_networks_have_channels_last_images(data: Dataset) -> None:
    seen = []

    class Looking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.fc = nn.Conv2d(3, 8, 3), nn.Linear(8 * 12 * 12, 4)

        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                seen.append(x.is_contiguous(memory_format=torch.channels_last))
            out: Tensor = self.fc(self.conv(x).flatten(1))
            return out

    tas.train(Looking(), data, tas.Training(**SHORT))
    assert seen == [True, True]
