"""The examples do what they say."""

import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import transformable as tas
from support.networks import PaddedResNet, randomise
from transformable.presets import PRESETS

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_network_of_ones_own_in_a_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = EXAMPLES / "own_network.py"
    assert len(script.read_text().splitlines()) < 40
    pruned = runpy.run_path(str(script))["pruned"]
    before, after = (pruned.summary[side] for side in ("before", "after"))
    assert 0.38 <= after["macs"] / before["macs"] <= 0.42
    assert after["accuracy"] >= before["accuracy"] - 0.02 >= 0.9
    assert type(pruned.model).__name__ == "Net"
    assert (tmp_path / "runs" / "own" / "report.html").is_file()
    assert "features.0" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "at_least"), [("unet_masks", 0.8), ("regressor", -0.2)])
def test_a_task_of_ones_own_beside_uniform(
    name: str, at_least: float, capsys: pytest.CaptureFixture[str]
) -> None:
    script = EXAMPLES / f"{name}.py"
    assert len(script.read_text().splitlines()) < 50
    runpy.run_path(str(script))
    lines = capsys.readouterr().out.splitlines()
    line = r"(\w+): score (\S+) -> (\S+), (\S+) of the MACs, (\S+) passes"
    found = [re.fullmatch(line, text) for text in lines]
    assert [match and match[1] for match in found] == ["tas", "uniform"]
    for match in found:
        assert match is not None
        before, after, share = (float(match[i]) for i in (2, 3, 4))
        assert before > at_least
        assert after > at_least - 0.05
        assert 0.47 <= share <= 0.53


def test_a_notebook_cell_by_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = PRESETS["quick"]
    short = quick._replace(search=lambda *data: replace(quick.search(*data), epochs=1))
    monkeypatch.setitem(PRESETS, "quick", short)
    notebook = json.loads((EXAMPLES / "prune.ipynb").read_text())
    # fewer epochs than a reader would want
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert any("EPOCHS = 10" in cell for cell in cells)
    names: dict[str, Any] = {}
    for cell in cells:
        exec(cell.replace("EPOCHS = 10", "EPOCHS = 1"), names)
    summary = names["pruned"].summary
    target = summary["target"]
    assert target["low"] <= summary["after"]["macs"] <= target["high"]
    found = eval("tas.evaluate(small, data.test)['accuracy']", names)
    assert found == summary["after"]["accuracy"]


def test_the_network_that_somebody_else_trained() -> None:
    network = runpy.run_path(str(EXAMPLES / "pretrained.py"))["resnet20"]().eval()
    twin = randomise(PaddedResNet()).eval()
    network.load_state_dict(twin.state_dict())
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.allclose(network(x), twin(x), atol=1e-4)
    space = tas.Space.trace(network, (3, 32, 32))
    assert space.depths == {f"layer{i}": (1, 2, 3) for i in (1, 2, 3)}
    assert not space.fixed
