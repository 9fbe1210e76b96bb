"""What is exported computes what the network does, with the package and without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import transformable as tas
from support.networks import randomise
from support.tiny_prune import prepare
from transformable.cli.entry import main
from transformable.networks import onnx_file
from transformable.networks.blueprint import Blueprint
from transformable.networks.export import check_agreement, export

ALONE = """
import sys
sys.modules["transformable"] = None  # as if it were not installed
import numpy, onnxruntime, torch
images = numpy.load("images.npy")
program = torch.export.load("export/model.pt2").module()
numpy.save("program.npy", program(torch.from_numpy(images)).detach().numpy())
session = onnxruntime.InferenceSession("export/model.onnx", providers=["CPUExecutionProvider"])
numpy.save("onnx.npy", session.run(["logits"], {"images": images})[0])
print([axis if isinstance(axis, str) else int(axis) for axis in session.get_inputs()[0].shape])
"""
BLUEPRINT = Blueprint(model="resnet20", num_classes=10, input_shape=(3, 16, 16))


@pytest.fixture(scope="module")
def small() -> tuple[nn.Module, tas.Shape]:
    model = randomise(tas.models.build("resnet20"))
    space = tas.Space.trace(model, (3, 16, 16))
    return tas.slim(model, space, space.smallest), space.smallest


def test_files_run_where_the_package_is_not(
    small: tuple[nn.Module, tas.Shape], tmp_path: Path
) -> None:
    model, shape = small
    images = torch.randn(7, 3, 16, 16)
    found = export(model, tmp_path / "export", images, blueprint=BLUEPRINT, shape=shape)
    assert found["checked"] == 7
    assert set(found["files"]) == {"model.safetensors", "model.pt2", "model.onnx"}
    np.save(tmp_path / "images.npy", images.numpy())
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALONE],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "['batch', 3, 16, 16]"
    with torch.no_grad():
        logits = model.eval()(images)
        assert torch.allclose(tas.load(tmp_path / "export")(images), logits, atol=1e-6)
    for name in ("program", "onnx"):
        theirs = torch.from_numpy(np.load(tmp_path / f"{name}.npy"))
        assert torch.allclose(theirs, logits, rtol=1e-3, atol=1e-5)
    assert tas.Shape.read(tmp_path / "export" / "shape.json") == shape


def test_without_its_extra_onnx_is_left_out_and_said(
    small: tuple[nn.Module, tas.Shape], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "available", lambda: False)
    model, shape = small
    found = export(model, tmp_path, torch.randn(2, 3, 16, 16), blueprint=BLUEPRINT, shape=shape)
    assert set(found["files"]) == {"model.safetensors", "model.pt2"}
    assert "pip install 'transformable[export]'" in found["left_out"]["model.onnx"]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x.flatten(1) + 0.01,
        lambda x: x.flatten(1).flip(0),
        lambda x: x.flatten(1) * (1.0 if len(x) > 1 else 1.1),
    ],
)
def test_a_file_that_computes_something_else_is_refused(tmp_path: Path, wrong: object) -> None:
    images = torch.randn(5, 2, 2, 2, generator=torch.Generator().manual_seed(0))
    logits = images.flatten(1)
    path = tmp_path / "model.onnx"
    path.write_text("")
    check_agreement(path, lambda x: x.flatten(1) + 1e-6, images, logits)
    assert path.exists()
    with pytest.raises(ValueError, match="does not compute what the network does"):
        check_agreement(path, wrong, images, logits)  # type: ignore[arg-type]
    assert not path.exists()


def test_large_logits_may_differ_by_their_rounding(tmp_path: Path) -> None:
    images = torch.tensor([[700.0, -0.01], [300.0, 300.0001], [1.0, 2.0]]).view(3, 2, 1, 1)
    logits = images.flatten(1)
    path = tmp_path / "model.onnx"
    path.write_text("")
    noise = torch.tensor([[0.0, 2e-3], [3e-4, -3e-4], [0.0, 0.0]])
    check_agreement(path, lambda x: x.flatten(1) + noise[: len(x)], images, logits)
    with pytest.raises(ValueError, match="does not compute"):
        check_agreement(path, lambda x: x.flatten(1).flip(1), images, logits)


def test_an_export_replaces_an_export_and_nothing_else(
    small: tuple[nn.Module, tas.Shape], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "available", lambda: False)
    model, shape = small
    images = torch.randn(2, 3, 16, 16)
    export(model, tmp_path / "out", images, blueprint=BLUEPRINT, shape=shape)
    (tmp_path / "out" / "model.onnx").write_text("of an earlier export")
    full = randomise(tas.models.build("resnet20"))
    found = export(full, tmp_path / "out", images, blueprint=BLUEPRINT)
    assert set(found["files"]) == {"model.safetensors", "model.pt2"}
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "model.pt2",
        "model.safetensors",
        "network.json",
    ]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "README.md").write_text("mine")
    with pytest.raises(ValueError, match="holds other files; choose another --out"):
        export(model, tmp_path / "project", images, blueprint=BLUEPRINT, shape=shape)
    assert (tmp_path / "project" / "README.md").read_text() == "mine"


def test_what_a_format_has_no_words_for_is_left_out_and_said(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(12, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x[0].sum() > 0:  # depends on what the images show
                x = x + 1
            logits: torch.Tensor = self.fc(x.flatten(1))
            return logits

    blueprint = Blueprint(model=None, num_classes=3, input_shape=(3, 2, 2))
    found = export(Odd(), tmp_path, torch.randn(2, 3, 2, 2), blueprint=blueprint)
    assert set(found["files"]) == {"model.safetensors"}
    assert found["left_out"]["model.pt2"].startswith(
        "the network cannot be written by torch.export"
    )
    assert found["left_out"]["model.onnx"].startswith("the network cannot be written by ONNX")
    assert not any("\n" in why or "\x1b" in why for why in found["left_out"].values())


def test_the_commands_distill_export_and_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(prepare(tmp_path))

    def tas_json(*arguments: str) -> dict[str, object]:
        assert main([*arguments, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    data = ["--model=net.py:net", "--data=npz:tiny.npz"]
    short = ["--epochs=3", "--batch-size=16"]
    tas_json("train", *data, *short, "--out=teacher")
    model = tas.load("teacher", trust=True)
    shape = tas.Space.trace(model, (1, 8, 8)).smallest
    Path("small.json").write_text(shape.to_json())
    small = [*data, *short, "--shape=small.json"]
    made = {
        kind: tas_json(
            "distill", *small, f"--transfer={kind}", f"--out={kind}", "--teacher=teacher"
        )
        for kind in ("none", "init", "kd", "init+kd")
    }
    assert len({tuple(tas.load(kind, trust=True).fc.bias.tolist()) for kind in made}) == 4  # type: ignore[union-attr,operator]
    for kind, result in made.items():
        assert tas_json("evaluate", kind, "--trust")["accuracy"] == result["accuracy"]
    exported = tas_json("export", "init+kd", "--trust")
    assert exported["checked"] == 40
    assert "made smaller" in Path("init+kd/export/README.md").read_text()
    # a run that is not finished may be writing these files itself
    os.rename("init+kd/result.json", "kept.json")
    before = {path: path.stat().st_mtime_ns for path in Path("init+kd/export").iterdir()}
    assert main(["export", "init+kd"]) == 2  # before its network is even loaded
    assert "init+kd is not finished" in capsys.readouterr().err
    assert before == {path: path.stat().st_mtime_ns for path in Path("init+kd/export").iterdir()}
    os.rename("kept.json", "init+kd/result.json")
    tas_json("export", "teacher", "--trust")
    assert "made smaller" not in Path("teacher/export/README.md").read_text()
    # from the run, or from what was exported
    os.rename("init+kd/export", "moved")
    x = torch.randn(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.allclose(
            tas.load("moved", trust=True)(x), tas.load("init+kd", trust=True)(x), atol=1e-6
        )
        os.rename("net.py", "gone.py")
        assert torch.allclose(
            tas.load("moved", trust=True)(x), tas.load("init+kd", model)(x), atol=1e-5
        )
    with pytest.raises(ValueError, match=r"net\.py does not exist; give the unpruned network"):
        tas.load("init+kd", trust=True)
    os.rename("tiny.npz", "other.npz")
    here = ["--model=gone.py:net", "--data=npz:other.npz"]
    assert tas_json("evaluate", "init+kd", *here)["accuracy"] == made["init+kd"]["accuracy"]
    assert tas_json("export", "init+kd", *here)["checked"] == 40


def test_distill_refuses_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(prepare(tmp_path))
    data = ["--model=net.py:net", "--data=npz:tiny.npz", "--out=run"]
    assert main(["distill", *data]) == 2
    assert "give the shape of the small network: --shape FILE" in capsys.readouterr().err
    Path("small.json").write_text('{"widths": {}, "depths": {}}')
    assert main(["distill", *data, "--shape=small.json"]) == 2
    assert "needs --teacher" in capsys.readouterr().err
    assert not Path("run").exists()
    for command in ("export", "report"):
        assert main([command]) == 2
        assert "give the folder of a finished run" in capsys.readouterr().err
        assert main([command, "nowhere"]) == 2
        assert "nowhere" in capsys.readouterr().err
