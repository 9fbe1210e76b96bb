"""No file from outside runs code: as weights, as CIFAR batch, as checkpoint, as run folder."""

import hashlib
import json
import os
import pickle
from pathlib import Path

import pytest
import torch

import transformable as tas
from support.hostile_pickles import hostile
from support.tiny_prune import prepare
from transformable.cli.entry import main
from transformable.networks.weights import read_weights
from transformable.runs.run_folder import Run

KINDS = ("os.system", "builtins.eval", "nested", "buffer")


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"


def content(kind: str, marker: Path) -> bytes:
    made, protocol = hostile(marker)[kind]
    return pickle.dumps(made, protocol=protocol)


@pytest.mark.parametrize("kind", KINDS)
def test_the_pickles_do_what_they_are_made_for(kind: str, marker: Path) -> None:
    pickle.loads(content(kind, marker))
    assert marker.exists()


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.th", "w.bin", "w.safetensors"])
@pytest.mark.parametrize("kind", KINDS)
def test_as_weights(kind: str, name: str, marker: Path, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content(kind, marker))
    with pytest.raises(ValueError, match=r"is refused: it would import|is damaged or not"):
        read_weights(tmp_path / name)
    made, protocol = hostile(marker)[kind]
    torch.save({"state_dict": made}, tmp_path / "zip.pt", pickle_protocol=protocol)
    with pytest.raises(ValueError, match=r"is refused: it would import|is damaged or not"):
        read_weights(tmp_path / "zip.pt")
    assert not marker.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_as_a_cifar_batch(kind: str, marker: Path, tmp_path: Path) -> None:
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        (tmp_path / name).write_bytes(content(kind, marker))
    with pytest.raises(ValueError, match="is not a CIFAR pickle file"):
        tas.data.load("cifar10", tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_as_a_checkpoint(kind: str, marker: Path, tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", {}) as run:
        run.start()
        made, protocol = hostile(marker)[kind]
        torch.save({"state": made}, run.folder / "checkpoint.pt", pickle_protocol=protocol)
        with pytest.raises(ValueError, match=r"checkpoint\.pt"):
            run.checkpoint()
        # whoever makes such a file can compute its checksum too
        for made_file in ((run.folder / "checkpoint.pt").read_bytes(), content(kind, marker)):
            body = made_file + b"\ntransformable checkpoint 1 sha256 "
            seal = f"{hashlib.sha256(body).hexdigest()}\n".encode()
            (run.folder / "checkpoint.pt").write_bytes(body + seal)
            with pytest.raises(ValueError, match=r"checkpoint\.pt is damaged \("):
                run.checkpoint()
    assert not marker.exists()


def test_a_folder_runs_code_only_when_it_is_asked_to(
    tmp_path: Path,
    marker: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(prepare(tmp_path))
    source = ["--model=net.py:net", "--data=npz:tiny.npz"]
    assert main(["train", *source, "--epochs=1", "--batch-size=16", "--out=run", "--json"]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    shape = tas.Space.trace(tas.load("run", trust=True), (1, 8, 8)).smallest
    Path("small.json").write_text(shape.to_json())
    net = Path("net.py").read_text()
    Path("net.py").write_text(f"open({str(marker)!r}, 'w').close()\n{net}")
    small = ["--shape=small.json", "--transfer=kd", "--epochs=1", "--batch-size=16", "--out=kd"]
    refused = [
        ["evaluate", "run"],
        ["export", "run"],
        ["distill", "--model=resnet20", "--data=npz:tiny.npz", "--teacher=run", *small],
    ]
    for arguments in refused[:2]:
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert f"give --model {tmp_path}/net.py:net, or tas.load" in error
        assert error.count("\n") == 1
    with pytest.raises(ValueError, match="a file is run only if you name it"):
        tas.load("run")
    assert main(refused[2]) == 2
    capsys.readouterr()
    assert not marker.exists()
    for named in (["--model=net.py:net"], ["--trust"]):
        assert main(["evaluate", "run", *named, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["accuracy"] == accuracy
        assert marker.exists()
        marker.unlink()
    # the same command names the factory itself, which is another one now
    with pytest.warns(UserWarning, match=r"net.py has changed since this run"):
        assert main(["train", *source, "--epochs=1", "--batch-size=16", "--out=run"]) == 0


def test_an_exported_program_is_loaded_only_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "network.json").write_text(
        '{"model": null, "num_classes": 2, "input_shape": [1, 4, 4]}'
    )
    for name in ("model.safetensors", "model.pt2", "config.toml"):
        (tmp_path / name).write_bytes(b"")
    loaded: list[os.PathLike[str]] = []

    def load(path: os.PathLike[str]) -> None:
        loaded.append(path)
        raise ZeroDivisionError

    monkeypatch.setattr(torch.export, "load", load)
    with pytest.raises(ValueError, match=r"made in Python; give the unpruned network.* --trust"):
        tas.load(tmp_path)
    assert loaded == []
    with pytest.raises(ZeroDivisionError):
        tas.load(tmp_path, trust=True)
    assert loaded == [tmp_path / "model.pt2"]
