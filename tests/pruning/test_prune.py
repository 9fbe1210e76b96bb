"""``tas prune``: the whole job, once and again, interrupted and continued, and with bad input."""

import csv
import json
import math
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import transformable as tas
from support.searches import alternating_search
from support.tiny_prune import OPTIONS, prepare
from transformable.cli.entry import main
from transformable.networks import onnx_file
from transformable.training import checkpoints

# what a clock has a say in
TIMES = ("seconds", "speed", "faster", "command", "out", "export", "environment")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare(tmp_path_factory.mktemp("prune"))


def run(folder: Path, *arguments: str) -> int:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return main([*OPTIONS, *arguments])
    finally:
        os.chdir(before)


@pytest.fixture(scope="module")
def whole(folder: Path) -> Path:
    assert run(folder, "--out=whole") == 0
    return folder / "whole"


@pytest.fixture
def without_onnx(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing ONNX takes longer than all else here; where the network is the point, it is left."""
    monkeypatch.setattr(onnx_file, "available", lambda: False)


def result(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "result.json").read_text())
    return found


def timeless(path: Path) -> dict[str, Any]:
    found = {name: value for name, value in result(path).items() if name not in TIMES}
    for side in ("before", "after"):
        found[side].pop("latency_ms")
    return found


def rows(path: Path) -> list[dict[str, str]]:
    clock = ("seconds", "samples_per_second")
    table = csv.DictReader(path.read_text().splitlines())
    return [{k: v for k, v in row.items() if k not in clock} for row in table]


def test_a_smaller_trained_network_inside_the_band(whole: Path) -> None:
    found = result(whole)
    before, after, target = found["before"], found["after"], found["target"]
    assert target["low"] <= after["macs"] <= target["high"]
    assert target["value"] == before["macs"] / 2
    assert before["accuracy"] > 0.9
    assert after["accuracy"] > 0.9
    assert found["n"] == 40
    small, unpruned = (
        tas.load(whole, trust=True),
        load_file(whole / "teacher" / "model.safetensors"),
    )
    count = sum(p.numel() for p in small.parameters())
    assert after["params"] == count
    assert before["params"] == sum(
        t.numel() for n, t in unpruned.items() if "running" not in n and "num_batches" not in n
    )
    assert sum(row["macs_after"] for row in found["layers"]) == after["macs"]
    assert sum(row["params_before"] for row in found["layers"]) == before["params"]
    assert {(row["engine"], row["batch"]) for row in found["speed"]} == {
        (engine, batch) for engine in ("PyTorch", "onnxruntime") for batch in (1, 64)
    }
    assert after["latency_ms"] == found["speed"][0]["after"]["median_ms"]
    assert (whole / "report.html").is_file()
    assert f"{after['macs']:,}" in (whole / "summary.md").read_text()


def test_evaluate_says_of_the_run_what_the_run_says(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["evaluate", str(whole), "--model=net.py:net", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["accuracy"] == result(whole)["after"]["accuracy"]


@pytest.mark.usefixtures("without_onnx")
def test_the_same_seed_gives_the_same_twice(whole: Path, folder: Path) -> None:
    assert run(folder, "--out=again") == 0
    assert timeless(folder / "again") == timeless(whole)
    for stage in ("teacher", "student"):
        one, two = (load_file(p / stage / "model.safetensors") for p in (whole, folder / "again"))
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_what_is_done_is_not_done_again(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {p: p.stat().st_mtime_ns for p in whole.rglob("*") if p.is_file() and p.name != ".lock"}
    assert run(folder, "--out=whole", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {**result(whole), "out": "whole"}
    assert files == {p: p.stat().st_mtime_ns for p in files}


@pytest.mark.usefixtures("without_onnx")
def test_interrupted_in_each_stage_it_goes_on_to_the_same(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    after_step = checkpoints.Checkpointer.after_step
    # 4 x 7 steps of training, 3 x 3 of search, 4 x 7 of distillation
    stops, steps = {10, 20, 32, 41, 60}, [0]

    def interrupted(self: Any, *arguments: Any) -> None:
        steps[0] += 1
        if steps[0] in stops:
            self._signals.requested = True
        after_step(self, *arguments)

    monkeypatch.setattr(checkpoints.Checkpointer, "after_step", interrupted)
    codes: list[int] = []
    while not codes or codes[-1] != 0:
        codes.append(run(folder, "--out=stopped"))
        assert codes[-1] == 0 or "run the same command again" in capsys.readouterr().err
    assert codes == [130] * len(stops) + [0]
    assert timeless(folder / "stopped") == timeless(whole)
    for name in ("teacher/metrics.csv", "search/metrics.csv", "student/metrics.csv"):
        assert rows(folder / "stopped" / name) == rows(whole / name)
    assert (folder / "stopped" / "search" / "distributions.jsonl").read_text() == (
        whole / "search" / "distributions.jsonl"
    ).read_text()


def test_another_config_in_the_same_folder_is_refused(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "--out=whole", "--epochs=5") == 2
    assert (
        "belongs to another config: student.epochs is 4 there and 5 here" in capsys.readouterr().err
    )
    assert run(folder, "--out=whole", "--preset=quick", "--teacher=net.py") == 2
    assert "teacher is not given there and net.py here" in capsys.readouterr().err
    short = [option for option in OPTIONS if not option.startswith("--batch-size")]
    monkeypatch.chdir(folder)
    assert main([*short, "--out=whole"]) == 2
    assert "train.batch_size is 16 there and 32 here" in capsys.readouterr().err


@pytest.mark.usefixtures("without_onnx")
def test_a_teacher_from_a_run_or_a_file(whole: Path, folder: Path) -> None:
    teacher = whole / "teacher"
    weights = {f"module.{n}": t for n, t in load_file(teacher / "model.safetensors").items()}
    torch.save({"state_dict": weights}, folder / "theirs.pt")
    for out, given in (("run", str(whole)), ("file", "theirs.pt")):
        assert run(folder, f"--out={out}", "--preset=quick", f"--teacher={given}") == 0
        assert result(folder / out)["shape"] == result(whole)["shape"]
        assert result(folder / out)["after"]["accuracy"] == result(whole)["after"]["accuracy"]
        assert result(folder / out)["before"]["accuracy"] == result(whole)["before"]["accuracy"]
        assert not (folder / out / "teacher" / "metrics.csv").exists()


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch was-run",)


@pytest.mark.parametrize("damage", ["shape", "truncated", "pickle", "absent"])
def test_a_teacher_that_cannot_be_used_is_refused_in_one_line(
    whole: Path, folder: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    good = whole / "teacher" / "model.safetensors"
    file = folder / ("bad.pt" if damage == "pickle" else f"{damage}.safetensors")
    reason = {
        "shape": "has other sizes for fc.weight (4x13 instead of 4x12)",
        "truncated": "is damaged or not safetensors",
        "pickle": "would import",
        "absent": "does not exist",
    }[damage]
    if damage == "shape":
        save_file({**load_file(good), "fc.weight": torch.zeros(4, 13)}, file)
    elif damage == "truncated":
        file.write_bytes(good.read_bytes()[:-100])
    elif damage == "pickle":
        torch.save({"state_dict": Evil()}, file)
    assert run(folder, "--out=refused", "--preset=quick", f"--teacher={file}") == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (folder / "was-run").exists()
    assert not (folder / "refused").exists()


def test_a_run_of_another_network_is_no_teacher(
    whole: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run(folder, "--out=refused", "--model=resnet20", "--preset=quick", f"--teacher={whole}")
        == 2
    )
    assert "net.py:net, not a resnet20; use --model " in capsys.readouterr().err


@pytest.mark.usefixtures("without_onnx")
def test_a_full_disk_leaves_what_was_done(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformable.atomic_files import write_whole
    from transformable.runs import checkpoint_file

    def full(path: Path, content: Any, **options: Any) -> None:
        if path.parent.name == "student" and path.name == "checkpoint.pt":
            raise OSError(28, "No space left on device")
        write_whole(path, content, **options)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_file, "write_whole", full)
        assert run(folder, "--out=full") == 2
    error = capsys.readouterr().err
    assert "student/checkpoint.pt: No space left on device" in error
    assert error.count("\n") == 1
    kept = (folder / "full" / "search" / "result.json").stat().st_mtime_ns
    assert run(folder, "--out=full") == 0
    assert timeless(folder / "full") == timeless(whole)
    assert (folder / "full" / "search" / "result.json").stat().st_mtime_ns == kept


@pytest.mark.usefixtures("without_onnx")
def test_a_loss_that_is_not_a_number_ends_in_one_line(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformable.task import Objective
    from transformable.training import distill

    def nan(of_labels: Objective, *_: Any, **__: Any) -> Objective:
        return lambda *batch: {**(found := of_labels(*batch)), "loss": found["loss"] * math.nan}

    monkeypatch.setattr(distill, "with_answers", nan)
    assert run(folder, "--out=nan") == 2
    error = capsys.readouterr().err
    assert "the loss is not a finite number at step 22 of the training of the small netw" in error
    assert ", chosen from the size of its filters); use a lower student.lr, or more" in error
    assert error.count("\n") == 1
    assert (folder / "nan" / "search" / "shape.json").is_file()
    assert tas.load(folder / "nan" / "teacher", trust=True)


def test_an_impossible_budget_or_folder_is_refused_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(folder, "--out=refused", "--budget=0.001") == 2
    assert "this network can have" in capsys.readouterr().err
    assert run(folder, "--out=/proc/none") == 2
    assert "cannot write to run folder /proc/none" in capsys.readouterr().err
    assert not (folder / "refused").exists()


@pytest.mark.usefixtures("without_onnx")
def test_from_python_with_a_network_of_ones_own(folder: Path, tmp_path: Path) -> None:
    dataset = tas.data.load(f"npz:{folder / 'tiny.npz'}", validation=0.05)
    model = runpy.run_path(str(folder / "net.py"))["net"](4, 1)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    short: dict[str, Any] = {"epochs": 1, "batch_size": 16}
    options: dict[str, Any] = {
        "training": tas.Training(**short),
        "searching": alternating_search(**short),
        "distilling": tas.Distilling(**short),
    }
    pruned = tas.prune(model, dataset, 0.5, out=tmp_path / "own", **options)
    assert all(torch.equal(value, state[n]) for n, value in model.state_dict().items())
    target = pruned.summary["target"]
    assert target["low"] <= pruned.summary["after"]["macs"] <= target["high"]
    x = torch.randn(3, 1, 8, 8)
    with torch.no_grad():
        logits = pruned.model(x)
        for place in (tmp_path / "own", tmp_path / "own" / "export"):
            assert torch.allclose(tas.load(place, model=model)(x), logits, atol=1e-6)
        # without the class of the network, the exported program computes the same
        assert torch.allclose(
            tas.load(tmp_path / "own" / "export", trust=True)(x), logits, atol=1e-5
        )
        assert torch.allclose(tas.load(tmp_path / "own", trust=True)(x), logits, atol=1e-5)
    after = pruned.summary["after"]
    assert f"-> {after['accuracy']:.4f}, macs" in repr(pruned)
    assert len(repr(pruned)) < 150
    with pytest.raises(ValueError, match="the model is the class Net; give a network"):
        tas.load(tmp_path / "own", model=type(model))  # type: ignore[arg-type]
    os.rename(tmp_path / "own" / "export", tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="was made in Python; give the unpruned network"):
        tas.load(tmp_path / "own")
    again = tas.prune(model, dataset, 0.5, out=tmp_path / "own", **options)
    assert again.summary == pruned.summary
    narrow = tas.Space.trace(model, (1, 8, 8), ratios=(0.25, 0.5, 1.0))
    others = tas.data.load(f"npz:{folder / 'tiny.npz'}", mean=0.3, std=0.2)
    for message, changed in (
        (
            "^the network has other weights than the one that run folder .*own was started with; "
            "call torch.manual_seed before building it, or choose another out$",
            {"model": pruned.teacher},
        ),
        ("^the images or labels are not those that .*; give the same data, or", {"data": others}),
        ("^the candidate sizes are not those that .*; give the same space", {"space": narrow}),
        (
            "belongs to another config: trained is False there and True here; choose another out$",
            {"trained": True},
        ),
    ):
        call: dict[str, Any] = {"model": model, "data": dataset, **options, **changed}
        with pytest.raises(ValueError, match=message):
            tas.prune(**call, budget=0.5, out=tmp_path / "own")
    trained = tas.prune(pruned.teacher, dataset, 0.5, trained=True, **options)
    assert trained.summary["before"]["accuracy"] == pruned.summary["before"]["accuracy"]
    assert trained.shape == pruned.shape


def test_what_does_not_fit_is_refused_before_anything_is_trained(
    folder: Path, tmp_path: Path
) -> None:
    dataset = tas.data.load(f"npz:{folder / 'tiny.npz'}", validation=0.05)
    net = runpy.run_path(str(folder / "net.py"))["net"]
    space = tas.Space.trace(net(4, 1), (1, 8, 8))
    large = tas.Space.trace(net(4, 1), (1, 16, 16))
    other = tas.Space.trace(tas.models.build("resnet20", num_classes=4, in_channels=1), (1, 8, 8))
    for model, given, message in (
        (net(10, 1), None, "the model returns 10 outputs, but .* has 4 classes"),
        (net(4, 1), large, r"traced for images of \(1, 16, 16\)"),
        (net(4, 1), other, "the network is not the one that was traced"),
    ):
        with pytest.raises(ValueError, match=message):
            tas.prune(model, dataset, 0.5, space=given, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert space.depths == {"stage": (1, 2)}


@pytest.mark.usefixtures("without_onnx")
def test_a_teacher_may_go_once_its_weights_are_in_the_run(
    whole: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(whole / "teacher" / "model.safetensors", folder / "lent.safetensors")
    with monkeypatch.context() as patch:
        patch.setattr("transformable.pruning.steps._timed_method", interrupt)
        assert run(folder, "--out=lent", "--preset=quick", "--teacher=lent.safetensors") == 130
    (folder / "lent.safetensors").unlink()
    assert run(folder, "--out=lent", "--preset=quick", "--teacher=lent.safetensors") == 0
    assert result(folder / "lent")["shape"] == result(whole)["shape"]


def interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.usefixtures("without_onnx")
def test_a_moved_run_knows_where_it_is(
    whole: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, folder / "moved")
    assert run(folder, "--out=moved", "--json") == 0
    assert json.loads(capsys.readouterr().out)["out"] == "moved"


def test_two_processes_work_on_one_job(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "transformable", *OPTIONS, "--devices=2", "--out=two", "--json"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == result(folder / "two")
    found = result(folder / "two")
    assert found["target"]["low"] <= found["after"]["macs"] <= found["target"]["high"]
    assert found["before"]["accuracy"] > 0.9
    assert (folder / "two" / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": {"epochs": 1}}, r"^training is dict; give tas.Training\(epochs=...\), or"),
        ({"searching": tas.Training()}, r"^searching is Training; give tas.Searching\("),
        ({"distilling": 3}, r"^distilling is int; give tas.Distilling\("),
        ({"seed": "a"}, "^seed must be an integer, not 'a'$"),
        ({"seed": True}, "^seed must be an integer, not True$"),
    ],
)
def test_arguments_of_other_types_are_named(options: dict[str, Any], message: str) -> None:
    model = tas.models.build("resnet20", num_classes=10, in_channels=1)
    with pytest.raises(ValueError, match=message):
        tas.prune(model, "digits", **options)


class OfSignals(nn.Module):
    """Takes signals (N, C, L) as images of one row."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm = nn.Conv1d(2, 12, 5, padding=2), nn.BatchNorm1d(12)
        self.b, self.fc = nn.Conv1d(12, 12, 5, padding=2), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.squeeze(2)
        logits: Tensor = self.fc(self.b(self.norm(self.a(x)).relu()).relu().mean(2))
        return logits


def test_signals_go_in_as_images_of_one_row() -> None:
    torch.manual_seed(0)
    signals = [(torch.randn(2, 1, 16) + number % 2, number % 2) for number in range(60)]
    short: dict[str, Any] = {"epochs": 1, "batch_size": 12}
    pruned = tas.prune(
        OfSignals(),
        signals,
        0.5,
        tolerance=0.1,
        training=tas.Training(**short),
        searching=tas.Searching(**short),
        distilling=tas.Distilling(**short),
    )
    before, after = (pruned.summary[when]["macs"] for when in ("before", "after"))
    assert before == 16 * (2 * 12 + 12 * 12) * 5 + 12 * 2 + 2
    widths = pruned.shape.widths
    assert after == 16 * (2 + widths["b"]) * widths["a"] * 5 + widths["b"] * 2 + 2
    assert 0.45 * before <= after <= 0.55 * before
    assert pruned.model(torch.zeros(3, 2, 1, 16)).shape == (3, 2)
