"""The command as a person meets it: what it prints, and how it ends."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from transformable import __version__
from transformable.cli import compare, report
from transformable.cli.entry import COMMANDS, main
from transformable.cli.outcome import Outcome
from transformable.cli.progress_bar import ProgressBar, ProgressLines, show_progress
from transformable.networks.load import load

NET = """
from torch import nn

def net(num_classes, in_channels):
    print("hello from the factory")
    return nn.Sequential(
        nn.Conv2d(in_channels, 4, 3), nn.BatchNorm2d(4), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, num_classes),
    )

def ten():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a network and a small dataset."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    labels = np.arange(60) % 3
    np.savez(
        tmp_path / "tiny.npz",
        x_train=images,
        y_train=labels,
        x_test=images[:30],
        y_test=labels[:30],
    )
    (tmp_path / "nets.py").write_text(NET)
    monkeypatch.chdir(tmp_path)
    return tmp_path


TRAIN = ["train", "--model=nets.py:net", "--data=npz:tiny.npz", "--epochs=2", "--batch-size=10"]


def test_train_then_evaluate(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run", "--json"]) == 0
    (out, err) = capsys.readouterr()
    result = json.loads(out)
    assert out.count("\n") == 1
    assert "hello from the factory" in err
    assert result["n"] == 30
    assert result["epochs"] == 2
    assert result["params"] == 4 * 9 + 4 + 8 + 4 * 3 + 3
    assert result["top5"] == 1.0
    assert result["out"] == "run"
    assert 0 <= result["validation_accuracy"] <= 1
    assert json.loads((here / "run" / "result.json").read_text()) == result

    assert main(["evaluate", "run", "--model=nets.py:net", "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {key: scores[key] for key in ("accuracy", "top5", "n")} == {
        key: result[key] for key in ("accuracy", "top5", "n")
    }

    source = ["--model=nets.py:net", "--weights=run/model.safetensors", "--data=npz:tiny.npz"]
    assert main(["evaluate", *source, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == scores


def test_a_finished_run_is_shown_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run", "--json"]) == 0
    first = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (here / "run").glob("[a-z]*")}
    assert main([*TRAIN, "--out=run", "--json"]) == 0
    assert capsys.readouterr().out == first
    assert {path: path.stat().st_mtime_ns for path in (here / "run").glob("[a-z]*")} == before


def test_json_has_no_number_that_is_not_finite(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = {"loss": math.nan, "rows": [{"accuracy": 0.5, "latency_ms": math.inf}]}
    monkeypatch.setattr(report, "report", lambda *_: Outcome(title="", result=found))
    assert main(["report", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"loss": None, "rows": [{"accuracy": 0.5, "latency_ms": None}]}


def test_a_table_for_a_person(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run"]) == 0
    (out, err) = capsys.readouterr()
    result = json.loads((here / "run" / "result.json").read_text())
    assert "nets.py:net on npz:tiny.npz" in out
    assert f"{result['accuracy']:.2%}" in out
    assert err == ""  # no terminal, no bar


def test_the_config_of_a_run_starts_the_same_run(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--preset=paper", "--lr=0.5", "--out=a", "--json"]) == 0
    assert main(["train", "--config=a/config.toml", "--out=b", "--json"]) == 0
    capsys.readouterr()
    weights = [(here / name / "model.safetensors").read_bytes() for name in ("a", "b")]
    assert weights[0] == weights[1]


def test_a_run_of_another_version_is_refused_by_every_command(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--out=run", "--json"]) == 0
    path = here / "run" / "config.toml"
    written = path.read_text()
    assert f'version = "{__version__}"\n' in written
    path.write_text(written.replace(f'version = "{__version__}"', 'version = "7.1.0"'))
    tiny = ["--model=nets.py:net", "--data=npz:tiny.npz", "--teacher=run", "--out=other"]
    for command in (
        [*TRAIN, "--out=run"],
        ["evaluate", "run"],
        ["export", "run"],
        ["report", "run"],
        ["prune", *tiny],
    ):
        capsys.readouterr()
        assert main(command) == 2
        assert capsys.readouterr().err == (
            "tas: error: run folder run was made by transformable 7.1.0, and this is "
            f"{__version__}; install transformable 7.1.0 to use it, or choose another folder\n"
        )
    assert not (here / "other").exists()
    with pytest.raises(ValueError, match=r"run was made by transformable 7\.1\.0"):
        load("run")


def test_the_default_run_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["out"] == "runs/nets.py-net-npz-tiny.npz-seed0"
    assert (here / "runs" / "nets.py-net-npz-tiny.npz-seed0" / "result.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trian"], "unknown command 'trian'; did you mean 'train'?"),
        (["--jsn"], "unknown option '--jsn'; known: "),
        (["train", "--epoch", "3"], "unknown option '--epoch'; did you mean '--epochs'?"),
        (
            ["train", "--batch_siz=3"],
            "unknown option '--batch_siz=3'; did you mean '--batch-size'?",
        ),
        (["train", "more"], "unexpected argument 'more'"),
        (["train", "--epochs", "abc"], "--epochs must be a whole number, not 'abc'"),
        (["train", "--lr", "abc"], "--lr must be a number, not 'abc'"),
        (["train", "--epochs"], "--epochs needs a value"),
        (["train", "--batch-size", "0"], "batch_size must be at least 1, not 0"),
        (["train", "--precision", "8"], "--precision must be one of 32-true, bf16-mixed, not '8'"),
        (["train", "--preset", "slow"], "unknown preset 'slow'; use one of quick, scratch, paper"),
        (["train", "--config", "none.toml"], "cannot read config file none.toml"),
        (["train", "--model", "resnet21"], "unknown model 'resnet21'; did you mean 'resnet20'?"),
        (["train", "--epochs", "1.5"], "--epochs must be a whole number, not '1.5'"),
        (["prune", "--epochs", "1.5"], "--epochs must be a whole number, not '1.5'"),
        (
            ["train", "--epochs", f"{10**21}"],
            f"epochs must be at most 1,000,000, not {10**21}",
        ),
        (["prune", "--epochs", f"{10**21}"], "epochs must be at most 1,000,000"),
        (["search", "--pretrain-epochs", f"{10**21}"], "epochs must be at most 1,000,000"),
        (["compare", "--seeds", f"{10**21}"], "seeds must be at most 1,000,000"),
        (["train", "--out", ""], "out must not be empty"),
        (["export", "run", "--out", ""], "out must not be empty"),
        (["prune", "--teacher", ""], "teacher must not be empty"),
        (["train", "--model", "nets.py:ten"], "returns 10 outputs, but npz:tiny.npz has 3 classes"),
        (["train", "--model", "none.py:net"], "file none.py does not exist"),
        (["train", "--data", "digitz"], "digitz"),
        (["train", "--data", "npz:none.npz"], "none.npz"),
        (["train", "--data", "npz:torn.npz"], "torn.npz"),
        (["train", "--device", "gpu"], "unknown device 'gpu'"),
        (["train", "--devices", "3"], "batch_size 10 cannot be shared by 3 devices"),
        (["train", "--out", "nets.py"], "cannot write to run folder nets.py: File exists"),
        (["train", "--out", "/proc/run"], "cannot write to run folder /proc/run: "),
        (["train", "--out", "."], "folder . has files but no config.toml"),
        (["evaluate"], "nothing to evaluate: give a run folder, or --model and --weights"),
        (["evaluate", "nowhere"], "nowhere is not a run folder: it has no config.toml"),
        (["evaluate", "x", "--weights", "w.pt"], "has its own weights; leave out --weights"),
        (["evaluate", "--model", "resnet20", "--weights", "w.pt"], "w.pt does not exist"),
        (
            ["evaluate", "--model", "resnet20", "--weights", "tiny.npz"],
            "is of a kind that is not taken",
        ),
        (["evaluate", "--model", "resnet20", "--weights", "evil.pt"], "would import posix.system"),
        (["evaluate", "--model", "resnet20", "--weights", "other.pt"], "has no stem"),
    ],
)
def test_bad_input_is_one_line_and_2(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    (here / "torn.npz").write_bytes((here / "tiny.npz").read_bytes()[:500])
    (here / "evil.pt").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    torch.save({"fc.bias": torch.ones(10)}, here / "other.pt")
    if arguments[0] == "train":
        # later ones win
        arguments = [*TRAIN, "--out=run", *arguments[1:]]
    assert main(arguments) == 2
    (out, err) = capsys.readouterr()
    err = err.replace("hello from the factory\n", "")
    assert out.replace("hello from the factory\n", "") == ""
    assert err.startswith("tas: error: ")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("switch", ["--debug", "TAS_DEBUG=1", "TAS_DEBUG=0", ""])
def test_the_line_of_ones_own_code_and_the_traceback(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, switch: str
) -> None:
    (here / "bad.py").write_text("def net():\n    return [][1]\n")
    if "=" in switch:
        monkeypatch.setenv(*switch.split("="))
    assert main(["cost", "--model=bad.py:net", *([switch] if switch == "--debug" else [])]) == 2
    *traceback, line = capsys.readouterr().err.splitlines()
    why = "failed: IndexError: list index out of range (bad.py, line 2)"
    assert line == f"tas: error: model 'bad.py:net' {why}"
    assert any("return [][1]" in each for each in traceback) == (
        switch in ("--debug", "TAS_DEBUG=1")
    )


def test_a_module_is_kept_whole_in_a_run_and_when_it_is_loaded(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "nets.py").write_text(KEPT)
    assert main(["cost", "--model=nets.py:net", "--data=npz:tiny.npz", "--leaf=1", "--json"]) == 0
    cost = json.loads(capsys.readouterr().out)
    assert cost["fixed"] == {"0": "'1' is kept whole", "1": "'1' is kept whole"}
    assert cost["shape"]["widths"] == {"2": 6}
    (here / "shape.json").write_text('{"widths": {"2": 3}, "depths": {}}')
    leaf = ["--leaf", "1", "--shape=shape.json", "--out=run", "--json"]
    assert main([*TRAIN, *leaf]) == 0
    accuracy = json.loads(capsys.readouterr().out)["accuracy"]
    assert json.loads((here / "run" / "network.json").read_text())["leaf"] == ["1"]
    assert main(["evaluate", "run", "--model=nets.py:net", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == accuracy
    assert main(["cost", "--model=nets.py:net", "--data=npz:tiny.npz", "--leaf=6"]) == 2
    error = capsys.readouterr().err
    assert error == "tas: error: the network has no module '6' to keep; known: 0, 1, 2, 3, 4, 5\n"


KEPT = """
from torch import nn

class Kept(nn.Conv2d):
    pass

def net():
    return nn.Sequential(
        nn.Conv2d(1, 6, 1), Kept(6, 6, 1), nn.Conv2d(6, 6, 1), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(6, 3)
    )
"""


def test_a_run_folder_of_another_config(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run"]) == 0
    capsys.readouterr()
    assert main([*TRAIN, "--out=run", "--epochs=3"]) == 2
    assert capsys.readouterr().err == (
        "tas: error: run folder run belongs to another config: "
        "epochs is 2 there and 3 here; choose another --out\n"
    )


def test_bad_input_does_not_take_the_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run", "--model=resnet21"]) == 2
    assert main([*TRAIN, "--out=run"]) == 0


def test_a_run_that_is_not_finished(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*TRAIN, "--out=run", "--lr=1e30"]) == 2
    assert "the loss is not a finite number at step" in capsys.readouterr().err
    assert main(["evaluate", "run"]) == 2
    assert "run is not finished; run its command again" in capsys.readouterr().err


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar(Console(stderr=True)) as bar:
        bar.start("training", 40, 10)
        bar.advance(30)
        bar.advance(31)  # too soon after the other
        bar.advance(40)
        bar.note("epoch 3/4: loss 0.500")
    (out, err) = capsys.readouterr()
    assert out == ""
    assert "31/40" not in err
    last = err.split("training")[-1]
    assert "40/40" in last
    assert "epoch 3/4: loss 0.500" in last


def test_a_bar_shows_nothing_of_the_work_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with show_progress() as bar:
        bar.start("2/3 search: searching", 40, 0)
        bar.note("macs 5.1M")
        bar.start("measuring the speed", 0, 0)
    last = capsys.readouterr().err.split("measuring the speed")[-1]
    assert "macs 5.1M" not in last
    assert "/" not in last  # no 0/1, since nothing is counted


def test_lines_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    lines = ProgressLines()
    assert lines.line() == "starting"
    lines.start("1/3 teacher: training", 40, 10)
    assert lines.line() == "1/3 teacher: training 10/40"
    now = 140.0
    lines.advance(20)
    lines.note("epoch 2/4: loss 0.500")
    # 10 steps in 40 s, 20 are left
    assert lines.line() == "1/3 teacher: training 20/40, about 80.0 s left, epoch 2/4: loss 0.500"
    lines.start("measuring the speed", 0, 0)
    assert lines.line() == "measuring the speed"


def test_lines_come_while_the_work_reports_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    printed = ""
    with ProgressLines(every=0.01) as lines:
        lines.start("preparing", 0, 0)
        for _ in range(1000):  # ten seconds at most, a few hundredths as a rule
            printed += capsys.readouterr().err
            if "preparing\npreparing\n" in printed:
                break
            time.sleep(0.01)
    assert "preparing\npreparing\n" in printed
    assert set(printed.splitlines()) <= {"starting", "preparing"}


def test_a_comparison_says_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = {"method": "tas", "budget": "0.5", "seed": 0, "state": "done", "reason": None}
    rows = [run, {**run, "seed": 1, "state": "running", "reason": "2/3 search: searching 40%"}]
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    tick = compare.LinesNowAndThen(lambda: rows)
    tick()
    now = 130.0
    tick()
    tick()
    assert capsys.readouterr().err == (
        "1 of 2 runs are done; tas 0.5 seed 1 (2/3 search: searching 40%)\n"
    )


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    overview = capsys.readouterr().out
    for name, summary in COMMANDS.items():
        assert name in overview
        assert summary in overview
    assert main(["train", "--help"]) == 0
    assert "Passes over the training set" in capsys.readouterr().out
    assert main(["status", "--help"]) == 0
    assert "default: None" not in capsys.readouterr().out  # its RUN_DIR must be given
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tas ")


def test_help_texts_are_broken_where_the_terminal_ends_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["prune", "--help"]) == 0
    lines = [line.strip("│ ") for line in capsys.readouterr().out.splitlines()]
    own = "(20M). Several (0.7,0.5,0.3) make a network for each of them in one"
    inherited = "for pixels of 0 to 1: one number or one per channel (default: the"
    in_a_section = "network's weights with probabilities, and an order of the channels, by"
    for text in (own, inherited, in_a_section):
        assert lines.count(text) == 1


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from transformable.cli import main; "
        "main(['--help']); main(['train', '--help']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_with_json_nothing_else_is_on_stdout(here: Path) -> None:
    """Also what is printed past Python, by a child process or a library in C."""
    (here / "loud.py").write_text(
        "import os\nfrom nets import net as quiet\n"
        "def net(num_classes, in_channels):\n"
        "    os.write(1, b'from C\\n')\n    os.system('echo from a child')\n"
        "    return quiet(num_classes, in_channels)\n"
    )
    command = [sys.executable, "-m", "transformable", "cost", "--model=loud.py:net", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["macs"] > 0
    assert "from C" in done.stderr
    assert "from a child" in done.stderr
