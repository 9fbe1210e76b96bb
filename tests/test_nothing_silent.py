"""What once gave a wrong result without a message is refused or reported."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import transformable as tas
from support.tiny_prune import OPTIONS, prepare
from transformable.atomic_files import weights_as_bytes
from transformable.cli.entry import main
from transformable.data.fingerprint import of_photos
from transformable.networks.weights import read_weights
from transformable.runs.run_folder import Run

SOURCE = ["--model=net.py:net", "--data=npz:tiny.npz", "--batch-size=16"]
NAMED = "--model=net.py:net"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder with a trained network in ``run`` and its weights in ``teacher.pt``."""
    folder = prepare(tmp_path_factory.mktemp("trained"))
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["train", *SOURCE, "--epochs=1", "--out=run"]) == 0
    finally:
        os.chdir(before)
    torch.save(load_file(folder / "run" / "model.safetensors"), folder / "teacher.pt")
    return folder


@pytest.fixture
def here(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, which is the working folder."""
    shutil.copytree(trained, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    # as if the run had been made here
    for path in (Path("run/config.toml"), Path("run/network.json")):
        path.write_text(path.read_text().replace(str(trained), str(tmp_path / "here")))
    return tmp_path / "here"


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("tas: error: ")
    assert error.count("\n") == 1
    return error


def other_images(path: Path) -> None:
    """The same images with one pixel changed."""
    with np.load(path) as arrays:
        changed = dict(arrays)
    changed["x_train"][0, 0, 0] ^= 1
    np.savez(path, **changed)


def flip(path: Path, place: int) -> None:
    """Change one bit."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_file_of_the_same_name_in_another_folder_is_not_the_data(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = f"--model={here}/net.py:net"
    assert main(["evaluate", "run", named, "--json"]) == 0
    right = json.loads(capsys.readouterr().out)
    elsewhere = here.parent / "elsewhere"
    elsewhere.mkdir()
    with np.load(here / "tiny.npz") as arrays:
        wrong = {**arrays, "y_test": (arrays["y_test"] + 1) % 4}
    np.savez(elsewhere / "tiny.npz", **wrong)
    monkeypatch.chdir(elsewhere)
    assert main(["evaluate", str(here / "run"), named, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == right
    # unless it is named
    other = ["evaluate", str(here / "run"), named, "--data=npz:tiny.npz", "--json"]
    assert main(other) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] != right["accuracy"]


def test_images_that_were_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other_images(here / "tiny.npz")
    for command in ("evaluate", "export"):
        error = error_of(capsys, command, "run", NAMED)
        assert "differ from those that run was made with; restore them, or give --data npz" in error
    assert main(["evaluate", "run", NAMED, "--data=npz:tiny.npz"]) == 0
    # a network that was trained on others may be used, and this is said
    assert main(["search", *SOURCE, "--weights=run", "--epochs=0", "--out=search"]) == 0
    assert "run was trained on other images than the present ones" in capsys.readouterr().err


@pytest.mark.parametrize("stage", ["teacher", "search"])
def test_images_that_were_replaced_between_two_stages(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    from transformable.pruning import prune

    step = {"teacher": "apply_method", "search": "train_student"}[stage]
    monkeypatch.setattr(prune, step, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    assert main([*OPTIONS, "--epochs=1", "--out=job"]) == 130
    assert (here / "job" / stage / "result.json").is_file()
    other_images(here / "tiny.npz")
    error = error_of(capsys, *OPTIONS, "--epochs=1", "--out=job")
    assert "the images of npz:tiny.npz differ from those that job was started with" in error


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("net.py", lambda path: path.write_text(path.read_text() + "\n"), "network"),
        ("tiny.npz", other_images, "images"),
    ],
)
def test_a_finished_run_whose_files_have_changed(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    change: Callable[[Path], None],
    words: str,
) -> None:
    command = ["train", *SOURCE, "--epochs=1", "--out=run", "--json"]
    assert main(command) == 0  # without a warning, which would be an error here
    result = capsys.readouterr().out
    change(here / name)
    for _ in range(2):
        with pytest.warns(
            match=f"^{name} has changed since this run; this is the result of the earlier {words}$"
        ):
            assert main(command) == 0
        assert capsys.readouterr().out == result
    # a file that is gone is not needed
    (here / name).unlink()
    assert main(command) == 0


def test_an_unfinished_run_whose_network_has_changed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "run" / "result.json").unlink()
    content = (here / "net.py").read_text()
    (here / "net.py").write_text(content.replace("12", "8"))
    command = ["train", *SOURCE, "--epochs=1", "--out=run"]
    error = error_of(capsys, *command)
    assert error == (
        "tas: error: net.py has changed since run folder run was started; restore it, or choose "
        "another --out\n"
    )
    (here / "net.py").write_text(content)
    assert main(command) == 0


def test_a_comparison_whose_network_has_changed(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", *SOURCE, "--methods=uniform", "--teacher=teacher.pt", "--out=all"]
    command += ["--epochs=1", "--search-epochs=1", "--tolerance=0.1", "--seeds=1"]
    assert main(command) == 0
    (here / "net.py").write_text((here / "net.py").read_text() + "\n")
    for _ in range(2):
        with pytest.warns(match="^net.py has changed since this run; this is the result of the"):
            assert main(command) == 0
    error = error_of(capsys, *command, "--seeds=2")
    assert "net.py has changed since run folder all was started; restore it" in error


def test_a_finished_search_needs_none_of_its_files(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["search", *SOURCE, "--weights=teacher.pt", "--epochs=0", "--out=search"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "1 of 2 blocks: " in shown or "2 of 2 blocks: " in shown
    for name in ("teacher.pt", "tiny.npz", "net.py"):
        (here / name).unlink()
    assert main(command) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--divisor=eight", "divisor must be a whole number of at least 1, or auto, not eight"),
        ("--divisor=0", "divisor must be a whole number of at least 1, or auto, not 0"),
        ("--teacher=nope.pt", "weights file nope.pt does not exist"),
        (
            "--at-most=foo=1",
            "at_most must be METRIC=AMOUNT with a metric of macs, params, latency, not 'foo=1'",
        ),
        ("--at-most=macs=1", "at_most macs=1: the budget itself is in macs"),
    ],
)
@pytest.mark.parametrize(
    ("command", "folder"),
    [("prune", "prune-0.5-"), ("compare", "compare-0.5-"), ("sweep", "sweep-")],
)
def test_a_wrong_value_where_another_run_has_the_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    folder: str,
    arguments: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with Run.open(f"runs/{folder}resnet20-digits-seed0", {"command": "another"}) as run:
        run.start()
    assert error_of(capsys, command, arguments) == f"tas: error: {words}\n"


def test_a_teacher_of_other_data(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = error_of(capsys, "prune", NAMED, "--teacher=run", "--out=new")
    assert error == (
        f"tas: error: run run was trained on npz:{here}/tiny.npz, not on digits; use --data "
        f"npz:{here}/tiny.npz, or --new-head to start the last layer afresh\n"
    )


def test_a_run_that_was_made_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = torch.rand(40, 1, 6, 6), torch.arange(40) % 2
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    short: dict[str, Any] = {"epochs": 1, "batch_size": 10}
    tas.prune(
        net,
        tas.data.from_tensors(images, images),
        method="uniform",
        training=tas.Training(**short),
        distilling=tas.Distilling(**short),
        out=tmp_path / "run",
    )
    for command in ("evaluate", "export"):
        assert error_of(capsys, command, str(tmp_path / "run")) == (
            f"tas: error: run {tmp_path / 'run'} was made in Python, on data of its own (tensors); "
            "use tas.load and tas.evaluate there, or give --data\n"
        )


def test_a_training_goes_on_with_its_own_images_alone(tmp_path: Path) -> None:
    def images(first: float) -> tas.data.Dataset:
        x = torch.zeros(12, 1, 2, 2)
        x[0, 0, 0, 0] = first
        return tas.data.from_tensors((x, torch.arange(12) % 2), (x, torch.arange(12) % 2))

    def train(data: tas.data.Dataset) -> None:
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        with Run.open(tmp_path / "run", {}) as run:
            tas.train(net, data, tas.Training(epochs=1, batch_size=4), tas.Session(run=run))

    train(images(0.0))
    train(images(0.0))
    with pytest.raises(
        ValueError, match=r"the images differ from those that run folder .* started with"
    ):
        train(images(1e-7))


def test_the_fingerprint_of_photos_is_of_names_sizes_and_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / f"{n}.png" for n in range(3)]
    (tmp_path / "a").mkdir()
    for path in paths:
        path.write_bytes(b"one")
    found = of_photos(tmp_path, paths)
    assert of_photos(tmp_path, reversed(paths)) == found
    shutil.copytree(tmp_path / "a", tmp_path / "b" / "a")
    assert of_photos(tmp_path / "b", (tmp_path / "b").rglob("*.png")) == found
    paths[2].write_bytes(b"two")
    assert of_photos(tmp_path, paths) != found
    paths[2].write_bytes(b"one")
    assert of_photos(tmp_path, paths) == found
    assert of_photos(tmp_path, paths[:2]) != found


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8])
@pytest.mark.parametrize("name", ["run/model.safetensors", "teacher.pt"])
def test_one_byte_of_the_weights(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, share: float
) -> None:
    """Inside of the values of a tensor, where a file can be read as well as before."""
    value = next(iter(read_weights(name).values())).numpy().tobytes()
    start = Path(name).read_bytes().index(value)
    flip(Path(name), start + int(share * len(value)))
    tries = [
        ["train", *SOURCE, f"--weights={name}", "--epochs=1", "--out=new"],
        ["prune", *SOURCE, f"--teacher={name}", "--out=new"],
        ["evaluate", "--model=net.py:net", "--data=npz:tiny.npz", f"--weights={name}"],
    ]
    if name.startswith("run"):
        tries += [["evaluate", "run", NAMED], ["export", "run", NAMED]]
    for arguments in tries:
        error = error_of(capsys, *arguments)
        assert f"weights file {name} is damaged: " in error
        advice = "remove run/result.json" if name.startswith("run") else "fetch or save it again"
        assert advice in error
    assert not Path("new").exists()


def test_what_to_remove_is_enough(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = Path("run/model.safetensors").read_bytes()
    flip(Path("run/model.safetensors"), -1)
    assert "remove run/result.json" in error_of(capsys, "evaluate", "run", NAMED)
    Path("run/result.json").unlink()
    assert main(["train", *SOURCE, "--epochs=1", "--out=run"]) == 0
    assert Path("run/model.safetensors").read_bytes() == good
    assert main(["evaluate", "run", NAMED]) == 0


def test_no_bit_of_a_weights_file_changes_a_weight(tmp_path: Path) -> None:
    net = nn.Linear(2, 2)
    (tmp_path / "w.safetensors").write_bytes(weights_as_bytes(net))
    torch.save(net.state_dict(), tmp_path / "w.pt")
    for path in (tmp_path / "w.safetensors", tmp_path / "w.pt"):
        content, good = path.read_bytes(), read_weights(path)
        noticed = 0
        for place in range(len(content)):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            try:
                found = read_weights(path)
            except ValueError:
                noticed += 1
                continue
            assert list(found) == list(good)
            assert all(torch.equal(found[name], good[name]) for name in good)
        assert noticed > 50


def tas_process(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell that runs a command, in which $TAS is tas."""
    tas_command = f"{sys.executable} -m transformable"
    return subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "TAS": tas_command, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("$TAS cost --json <&- >&-", 0),
        ("$TAS cost <&- >&- 2>&-", 0),
        ("$TAS cost | true; exit ${PIPESTATUS[0]}", 0),
        ("$TAS train --out=none/$'\\xff' --epochs=0 >&-", 2),
    ],
)
def test_closed_files_and_pipes_end_without_a_traceback(command: str, code: int) -> None:
    done = tas_process(command)
    assert done.returncode == code
    assert done.stderr.count("\n") == (1 if code else 0)
    assert done.stdout == ""


def test_a_name_that_the_locale_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('shape = "k\u00fche.json"', encoding="utf-8")
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = tas_process(f"$TAS cost --config {tmp_path}/c.toml", **ascii_only)
    assert done.returncode == 2
    assert done.stderr == (
        "tas: error: 'k\\xfche.json' has letters that ascii cannot encode; use another name, or "
        "set PYTHONUTF8=1\n"
    )
