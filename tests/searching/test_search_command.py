"""What ``tas search`` writes down."""

import csv
import json
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

from support.command_process import start
from support.dropout_network import write_files

OPTIONS = [
    "--model=net.py:net",
    "--data=npz:tiny.npz",
    "--pretrain-epochs=1",
    "--epochs=3",
    "--batch-size=2",
    "--budget=0.5",
    "--tolerance=0.2",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed")
    write_files(path, images=120)
    return path


def search(folder: Path, out: str) -> BaseProcess:
    return start(folder, out, "search", *OPTIONS)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    process = search(folder, "whole")
    process.join()
    assert process.exitcode == 0, (folder / "whole.err").read_text()
    return folder / "whole"


def rows(path: Path) -> list[dict[str, str]]:
    table = list(csv.DictReader(path.read_text().splitlines()))
    return [{k: v for k, v in row.items() if k != "seconds"} for row in table]


def test_what_a_search_writes_down(whole: Path) -> None:
    steps, epochs = rows(whole / "steps.csv"), rows(whole / "metrics.csv")
    assert [int(row["step"]) for row in steps] == list(range(1, 180 + 1))
    assert len(epochs) == 3
    assert float(steps[0]["tau"]) == 0.5
    assert float(steps[-1]["tau"]) == pytest.approx(0.3)
    of_last_epoch = [float(row["weight_loss"]) for row in steps if row["epoch"] == "3"]
    assert float(epochs[-1]["weight_loss"]) == pytest.approx(np.mean(of_last_epoch))
    distributions = [
        json.loads(s) for s in (whole / "distributions.jsonl").read_text().splitlines()
    ]
    assert [row["epoch"] for row in distributions] == [1, 2, 3]
    assert all(sum(p) == pytest.approx(1) for k, p in distributions[-1].items() if k != "epoch")
    result = json.loads((whole / "result.json").read_text())
    assert result["target"]["low"] <= result["macs"] <= result["target"]["high"]
    assert json.loads((whole / "shape.json").read_text()) == result["shape"]
