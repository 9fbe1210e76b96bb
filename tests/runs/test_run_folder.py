"""The run folder: whole files, one config, one process at a time."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from transformable.atomic_files import write_whole
from transformable.runs import run_folder
from transformable.runs.run_folder import Run, read_settings

SETTINGS = {"model": "resnet20", "seed": 0, "train": {"lr": 0.1}}


def begun(folder: Path, settings: dict[str, Any]) -> None:
    with Run.open(folder, settings) as run:
        run.start()


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Run.open(tmp_path / "run", SETTINGS) as run:
        run.start()
        run.save_checkpoint({"step": 1})

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(ValueError, match=r"cannot write .*checkpoint.pt: No space left"):
            run.save_checkpoint({"step": 2})
        assert run.checkpoint() == {"step": 1}
    assert sorted(os.listdir(tmp_path / "run")) == [".lock", "checkpoint.pt", "config.toml"]


def test_a_torn_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_whole(path, "old")

    def torn(file: Any) -> None:
        file.write(b"ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, torn)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_new_file_is_on_the_disk_before_it_takes_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def noted(name: str) -> None:
        original = getattr(os, name)

        def call(*arguments: object) -> None:
            calls.append(name)
            original(*arguments)

        monkeypatch.setattr(os, name, call)

    noted("fsync")
    noted("replace")
    write_whole(tmp_path / "file", "text")
    assert calls == ["fsync", "replace", "fsync"]


def test_another_config_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "run", {"seed": 1, "train": {"lr": 0.5}})
    with pytest.raises(ValueError, match="belongs to another config") as caught:
        Run.open(tmp_path / "run", {"seed": 1, "train": {"lr": 0.25}})
    assert str(caught.value) == (
        f"run folder {tmp_path}/run belongs to another config: "
        "train.lr is 0.5 there and 0.25 here; choose another --out"
    )
    with pytest.raises(ValueError, match=r"budget is not given there and 0\.5 here"):
        Run.open(tmp_path / "run", {"seed": 1, "train": {"lr": 0.5}, "budget": "0.5"})


def test_what_changes_no_result_may_change(tmp_path: Path) -> None:
    begun(tmp_path / "run", {"seed": 1, "device": "cpu"})
    other = {"seed": 1, "device": "cuda", "data_dir": "elsewhere"}
    Run.open(tmp_path / "run", other, may_differ={"device", "data_dir"}).close()
    with pytest.raises(ValueError, match="data_dir is not given there and elsewhere here"):
        Run.open(tmp_path / "run", other, may_differ={"device"})


def test_a_folder_is_free_until_the_run_begins(tmp_path: Path) -> None:
    Run.open(tmp_path / "run", {"lr": 0.5}).close()
    begun(tmp_path / "run", {"lr": 0.25, "ratios": [0.5, 1.0], "search": {"tau": 2.0}})
    kept = read_settings(tmp_path / "run")
    assert kept == {"lr": 0.25, "ratios": [0.5, 1.0], "search": {"tau": 2.0}}


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('model = "resnet20"\nseed = 0\nlr = 0.1\n')
    with pytest.raises(ValueError, match="was made by another version of transformable, whose"):
        Run.open(tmp_path, {"model": "resnet20", "seed": 0, "lr": 0.1})


@pytest.mark.parametrize(
    ("made_by", "here", "readable"),
    [
        ("0.2.0", "0.2.7", True),
        ("0.2.0.dev0", "0.2.0", True),
        ("0.2.0", "0.3.0", False),
        ("0.9.0", "1.0.0", False),
        ("1.2.0", "1.10.1", True),
        ("1.2.0", "10.2.0", False),
        ("2.0.0", "1.0.0", False),
    ],
)
def test_the_version_that_made_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made_by: str, here: str, readable: bool
) -> None:
    monkeypatch.setattr(run_folder, "__version__", made_by)
    begun(tmp_path / "run", SETTINGS)
    written = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert written == {"format": run_folder.FORMAT, "version": made_by, **SETTINGS}
    monkeypatch.setattr(run_folder, "__version__", here)
    if readable:
        Run.open(tmp_path / "run", SETTINGS).close()
        assert read_settings(tmp_path / "run") == SETTINGS
        return
    with pytest.raises(ValueError, match="was made by") as caught:
        Run.open(tmp_path / "run", SETTINGS)
    assert str(caught.value) == (
        f"run folder {tmp_path}/run was made by transformable {made_by}, and this is {here}; "
        f"install transformable {made_by} to use it, or choose another folder"
    )


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match="it is not a run folder; choose another --out"):
        Run.open(tmp_path, SETTINGS)


def test_a_path_that_cannot_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/run")):
        with pytest.raises(ValueError, match="cannot write to run folder"):
            Run.open(path, SETTINGS)


def test_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the tests may run as root, who may write anywhere
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ValueError, match=r"cannot write to run folder .*: Permission denied"):
        Run.open(tmp_path / "run", SETTINGS)


HOLD = """
import sys
from transformable.runs.run_folder import Run
run = Run.open(sys.argv[1], {"seed": 0})
print("open", flush=True)
sys.stdin.read()
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(ValueError, match="is in use by another process"):
            Run.open(tmp_path / "run", SETTINGS)
        other.kill()
    Run.open(tmp_path / "run", SETTINGS).close()


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", SETTINGS) as run:
        assert run.result() is None
        (tmp_path / "run" / "result.json").write_text("{")
        with pytest.raises(ValueError, match=r"result.json is not JSON; remove it"):
            run.result()
        run.save_result({"accuracy": 0.5})
        assert run.result() == {"accuracy": 0.5}


def test_metrics_and_weights(tmp_path: Path) -> None:
    conv = nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with Run.open(tmp_path / "run", SETTINGS) as run:
        run.save_metrics([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": None}])
        run.save_weights(conv)
    assert (tmp_path / "run" / "metrics.csv").read_text() == "epoch,loss\n1,0.5\n2,\n"
    saved = load_file(tmp_path / "run" / "model.safetensors")
    assert set(saved) == {"weight", "bias"}
    assert torch.equal(saved["weight"], conv.weight)


def test_tensorboard_is_told_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            told.append((Path(folder).name, purge_step))

        def add_scalar(self, *what: object) -> None:
            told.append(what)

        def flush(self) -> None: ...

        def close(self) -> None:
            told.append(("close",))

    told: list[tuple[object, ...]] = []
    module = type(sys)("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    with Run.open(tmp_path / "run", SETTINGS) as run:
        run.save_event({"epoch": 3, "lr": 0.5, "validation_loss": None})
        run.save_event({"epoch": 4, "lr": 0.25, "validation_loss": 1.0})
    assert told == [
        ("run", 3),
        ("lr", 0.5, 3),
        ("lr", 0.25, 4),
        ("validation_loss", 1.0, 4),
        ("close",),
    ]


def test_without_tensorboard_nothing_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with Run.open(tmp_path / "run", SETTINGS) as run:
        run.save_event({"epoch": 1, "lr": 0.5})
        assert os.listdir(tmp_path / "run") == [".lock"]


def test_a_run_of_which_nothing_came_leaves_no_folder(tmp_path: Path) -> None:
    with Run.open(tmp_path / "a" / "run", SETTINGS):
        pass
    assert os.listdir(tmp_path / "a") == []
    with Run.open(tmp_path / "a" / "run", SETTINGS) as run:
        run.start()
    assert sorted(os.listdir(tmp_path / "a" / "run")) == [".lock", "config.toml"]
