"""One pipeline: every method, also one of a user's own, through prune, compare and sweep."""

import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import transformable as tas
from support.tiny_prune import OPTIONS, prepare
from transformable.cli.entry import main
from transformable.networks import onnx_file

OWN = """
import transformable as tas
from transformable.methods import MethodResult
from transformable.methods.uniform import uniform_shape

def leading(model, space, budget, context):
    shape = uniform_shape(space, budget)
    small = tas.slim(model, space, shape)
    return MethodResult(
        shape=shape, model=small, cost=budget.cost(space, shape), notes={"kept": "the first"}
    )

def too_large(model, space, budget, context):
    full = space.full
    return MethodResult(shape=full, model=model, cost=budget.cost(space, full))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepare(tmp_path_factory.mktemp("methods"))
    (folder / "mine.py").write_text(OWN)
    return folder


@pytest.fixture(scope="module")
def teacher(folder: Path) -> str:
    """One that all jobs here start from."""
    before = Path.cwd()
    os.chdir(folder)
    assert main(["train", *OPTIONS[1:3], "--epochs=4", "--batch-size=16", "--out=teacher"]) == 0
    os.chdir(before)
    return f"--teacher={folder / 'teacher'}"


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    # writing ONNX takes longer than all else here
    monkeypatch.setattr(onnx_file, "available", lambda: False)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("method", ["fpgm", "taylor", "lccl", "mine.py:leading"])
def test_inside_the_band_exported_and_reported(
    method: str, teacher: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder / f"by-{method.rpartition(':')[2]}"
    result = run(capsys, *OPTIONS, teacher, f"--method={method}", f"--out={out}")
    target, after = result["target"], result["after"]
    assert target["low"] <= after["macs"] <= target["high"]
    assert result["method"] == method
    assert result["measured"] == (method == "lccl")
    page = (out / "report.html").read_text()
    assert f"Pruned by {method}" in page
    for note in result["notes"]:
        assert note in page
    small, exported = (tas.load(place, trust=True) for place in (out, out / "export"))
    x = torch.rand(5, 1, 8, 8)
    with torch.no_grad():
        assert torch.allclose(small(x), exported(x), atol=1e-5)
    tested = run(capsys, "evaluate", str(out), "--trust")
    assert tested["accuracy"] == after["accuracy"]
    # once is enough
    assert run(capsys, *OPTIONS, teacher, f"--method={method}", f"--out={out}") == result


def test_another_method_needs_another_folder(
    teacher: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, *OPTIONS, teacher, "--method=uniform", "--out=one", "--no-export")
    assert not (folder / "one" / "export").exists()
    assert main([*OPTIONS, teacher, "--method=pfec", "--out=one", "--no-export"]) == 2
    assert "method is uniform there and pfec here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("fpmg", "unknown method 'fpmg'; did you mean 'fpgm'?"),
        ("none.py:leading", "method 'none.py:leading': file none.py does not exist"),
        (
            "mine.py:lead",
            "mine.py has no function 'lead'; it has uniform_shape, leading, too_large",
        ),
        ("mine.py:too_large", "mine.py:too_large found a network with"),
    ],
)
def test_a_method_that_is_not_there_or_misses_the_band(
    method: str, message: str, teacher: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*OPTIONS, teacher, f"--method={method}", "--out=bad"]) == 2
    assert message in capsys.readouterr().err


def test_a_trial_is_a_job_like_any_other(
    teacher: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = [option for option in OPTIONS[1:] if not option.startswith("--budget")]
    options = ["compare", *shared, teacher, "--budget=0.5", "--seeds=1", "--transfer=init+kd"]
    compared = run(capsys, *options, "--methods=fpgm,mine.py:leading", "--out=compared")
    assert [row["state"] for row in compared["rows"]] == ["done", "done"]
    # a trial of a method without a search trains for all passes
    as_long = [option.replace("--epochs=4", "--epochs=7") for option in OPTIONS]
    alone = run(capsys, *as_long, teacher, "--method=fpgm", "--out=fpgm")
    trial = folder / "compared" / "fpgm-0.5-seed0" / "init+kd"
    result = json.loads((trial / "result.json").read_text())
    for name in ("shape", "target", "notes", "method", "transfer", "layers"):
        assert result[name] == alone[name], name
    for name in ("accuracy", "macs", "params", "bytes"):
        assert result["after"][name] == alone["after"][name]
        assert result["before"][name] == alone["before"][name]
    assert "Pruned by fpgm" in (trial / "report.html").read_text()
    evaluated = run(capsys, "evaluate", str(trial), "--trust")
    assert evaluated["accuracy"] == alone["after"]["accuracy"]


def test_settings_by_section_decide(
    teacher: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lr in ("0.1", "0.000001"):
        options = [teacher, "--method=uniform", f"--student.lr={lr}", f"--out=lr{lr}"]
        run(capsys, *OPTIONS, *options, "--no-export")
    students = [folder / f"lr{lr}" / "student" for lr in ("0.1", "0.000001")]
    high, low = (
        max(
            float(row["lr"])
            for row in csv.DictReader((student / "metrics.csv").read_text().splitlines())
        )
        for student in students
    )
    assert 0 < low <= 1e-6 < 0.01 < high <= 0.1
    weights = [(student / "model.safetensors").read_bytes() for student in students]
    assert weights[0] != weights[1]
