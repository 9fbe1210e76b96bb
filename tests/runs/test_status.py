"""What a run folder says of its work while it is done, and how it ended."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import transformable as tas
from support.command_process import start, wait_for
from support.tiny_prune import prepare
from transformable.cli.entry import main
from transformable.comparing.trials_file import TrialsFile
from transformable.runs import progress_file
from transformable.runs.process_identity import start_of, this_process
from transformable.runs.progress import Progress
from transformable.runs.progress_file import ProgressFile, ProgressRecord
from transformable.runs.run_folder import Run
from transformable.runs.status import run_status

TRAIN = ["train", "--model=net.py:net", "--data=npz:tiny.npz", "--batch-size=16"]


class Looker(Progress):
    """Looks at the run folder whenever the work says how far it is."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.seen = folder, list[dict[str, Any]]()

    def start(self, what: str, total: int, done: int) -> None:
        self.seen.append(run_status(self.folder))

    def advance(self, done: int) -> None:
        self.seen.append(run_status(self.folder))


def test_a_job_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_file, "EVERY_SECONDS", 0.0)
    images = torch.rand(40, 1, 6, 6), torch.arange(40) % 2
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    out = tmp_path / "run"
    looker = Looker(out)
    data = tas.data.from_tensors(images, images)
    tas.prune(
        net,
        data,
        method="uniform",
        training=tas.Training(epochs=2, batch_size=10),
        distilling=tas.Distilling(epochs=2, batch_size=10),
        out=out,
        progress=looker,
    )
    steps = 2 * data.train.steps(10)
    stages = [(seen["stage"], seen["done"], seen["total"]) for seen in looker.seen]
    assert stages[: steps + 2] == [
        *(("1/3 teacher: training", done, steps) for done in range(steps + 1)),
        ("1/3 teacher: testing", 0, None),
    ]
    assert ("3/3 student: training", steps, steps) in stages
    for seen in looker.seen:
        assert seen["state"] == "running"
        assert seen["process"]["pid"] == os.getpid()
        assert seen["process"]["alive"] is True
    last = looker.seen[steps + 1]["last"]
    assert last["file"] == "teacher/metrics.csv"
    assert (last["epoch"], last["step"]) == (2, steps)
    rows = (out / "teacher" / "metrics.csv").read_text().splitlines()
    assert last["train_loss"] == float(rows[-1].split(",")[rows[0].split(",").index("train_loss")])
    # the process lives on, the job is finished
    seen = run_status(out)
    assert seen["state"] == "finished"
    assert main(["status", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "finished: the results are in the folder" in shown
    assert "measuring" not in shown
    assert "stage" not in shown
    after = json.loads((out / "result.json").read_text())["after"]
    assert seen["result"] == {name: after[name] for name in ("accuracy", "top5", "macs", "params")}


def test_rate_and_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Run.open(tmp_path, {"command": "train"}) as run:
        run.start()
        told = ProgressFile(tmp_path, Progress())
        told.start("training", 200, 50)
        now += 1
        told.advance(60)  # too soon to be written
        assert run_status(tmp_path)["done"] == 50
        assert run_status(tmp_path)["seconds_left"] is None
        now += 19
        told.note("epoch 1/2: loss 0.5")
        told.advance(100)
        seen = run_status(tmp_path)
    # 50 steps in 20 s; 100 are left
    assert (seen["done"], seen["total"]) == (100, 200)
    assert (seen["steps_per_second"], seen["seconds_left"]) == (2.5, 40.0)
    assert seen["note"] == "epoch 1/2: loss 0.5"


def test_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, jump = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    images = torch.rand(40, 1, 6, 6), torch.arange(40) % 2
    saved: list[int] = []

    class Jumping(Looker):
        def advance(self, done: int) -> None:
            nonlocal jump
            jump = (-1e9, 1e9)[done % 2]
            super().advance(done)

    class Counting(Run):
        def save_checkpoint(self, state: dict[str, Any]) -> None:
            saved.append(state["state"]["step"])
            super().save_checkpoint(state)

    with Counting.open(tmp_path, {"command": "train"}) as run:
        run.start()
        looker = Jumping(tmp_path)
        session = tas.Session(run=run, progress=ProgressFile(tmp_path, looker))
        net = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
        data = tas.data.from_tensors(images, images)
        tas.train(net, data, tas.Training(epochs=2, batch_size=10), session)
    # one after each epoch, and none because a clock says that much time has passed
    assert saved == [3, 6]
    for seen in looker.seen:
        assert seen["state"] == "running"
        assert seen["updated_seconds_ago"] >= 0
        assert seen["seconds_left"] is None or 0 <= seen["seconds_left"] < 1000


def test_it_changes_nothing_and_does_not_lock(tmp_path: Path) -> None:
    with Run.open(tmp_path, {"command": "train"}) as run:
        run.start()
        ProgressFile(tmp_path, Progress()).start("training", 10, 3)
        before = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.iterdir()}
        assert run_status(tmp_path)["state"] == "running"
        after = {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in tmp_path.iterdir()}
    assert before == after
    assert set(before) == {".lock", "config.toml", "progress.json"}


def test_a_process_that_was_killed_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(prepare(tmp_path))

    def state(*options: str) -> Any:
        assert main(["status", "run", *options]) == 0
        out = capsys.readouterr().out
        return json.loads(out) if options else out

    process = start(tmp_path, "run", *TRAIN, "--epochs=500")
    wait_for(tmp_path / "run" / "metrics.csv", process)
    seen = state("--json")
    assert (seen["state"], seen["command"]) == ("running", "train")
    assert (seen["stage"], seen["total"]) == ("training", 500 * 7)
    assert seen["process"]["pid"] == process.pid
    assert seen["last"]["step"] == 7 * seen["last"]["epoch"]
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    seen = state("--json")
    assert (seen["state"], seen["process"]["alive"]) == ("dead", False)
    assert f"dead: process {process.pid} no longer exists and left no reason" in state()
    # stopped by a signal instead
    process = start(tmp_path, "run", *TRAIN, "--epochs=500")
    while state("--json")["process"]["pid"] != process.pid:
        time.sleep(0.01)
    process.terminate()
    process.join()
    assert "interrupted: stopped by a signal, what was done is saved" in state()


def test_a_process_that_failed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(prepare(tmp_path))
    options = ["--epochs=1", "--lr=1e30", "--warmup-epochs=0", "--out=run"]
    assert main([*TRAIN, *options]) == 2
    assert "not a finite number" in capsys.readouterr().err
    seen = run_status(tmp_path / "run")
    assert seen["state"] == "failed"
    assert "the loss is not a finite number at step" in seen["reason"]


def test_another_process_with_the_same_number_is_not_the_one() -> None:
    me = this_process()
    assert me.is_alive() is True
    assert replace(me, start="0").is_alive() is False
    assert replace(me, host="elsewhere").is_alive() is None
    # a zombie, which nobody has waited for yet
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        there = replace(me, pid=child.pid, start=start_of(child.pid))
        assert there.is_alive() is True
        child.terminate()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert there.is_alive() is False


def test_another_machine_cannot_be_asked(tmp_path: Path) -> None:
    with Run.open(tmp_path, {"command": "train"}) as run:
        run.start()
    there = replace(this_process(), host="elsewhere")
    ProgressRecord(stage="training", process=there).write(tmp_path)
    seen = run_status(tmp_path)
    assert (seen["state"], seen["process"]["alive"]) == ("elsewhere", None)


def test_folders_without_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, words in (
        (tmp_path / "no", "there is no such folder"),
        (tmp_path, "it has no config.toml"),
    ):
        assert main(["status", str(folder)]) == 2
        error = f"tas: error: {folder} is not a run folder: {words}\n"
        assert capsys.readouterr().err == error
    assert main(["status"]) == 2
    assert "no run folder: give" in capsys.readouterr().err
    run = Run.open(tmp_path / "run", {"command": "train", "model": "resnet20", "data": "digits"})
    assert run_status(tmp_path / "run")["state"] == "not started"
    run.start()
    assert run_status(tmp_path / "run")["state"] == "not started"
    run.close()
    assert main(["status", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    assert "not started: nothing has been computed here yet" in out
    assert "tas train, resnet20 on digits" in out
    (tmp_path / "run" / "progress.json").write_text('{"stage": 1}')
    assert main(["status", str(tmp_path / "run")]) == 2
    assert "progress.json cannot be read; remove it" in capsys.readouterr().err


def test_the_trials_of_a_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"command": "sweep", "model": "resnet20", "data": "digits"}
    states = ["done", "failed", "running", "running", "waiting", "done"]
    rows = [
        {"method": "pfec", "budget": "0.5", "seed": seed, "state": state, "reason": reason}
        for seed, (state, reason) in enumerate(zip(states, ["", "no", "", "", "", ""], strict=True))
    ]
    names = [f"pfec-0.5-seed{seed}" for seed in range(6)]
    with Run.open(tmp_path, settings) as run:
        run.start()
        TrialsFile(tmp_path, lambda: rows)
    for name, process, stage in (
        (names[2], this_process(), "2/3 search: training"),
        (names[3], replace(this_process(), start="0"), "3/3 student: training"),
        # done elsewhere, after this one was killed
        (names[5], replace(this_process(), start="0"), "3/3 student: training"),
    ):
        with Run.open(tmp_path / name, {}) as run:
            run.start()
        record = ProgressRecord(stage=stage, done=30, total=40, process=process)
        replace(record, first=10, seconds=10.0).write(tmp_path / name)
    assert main(["status", str(tmp_path), "--json"]) == 0
    seen = json.loads(capsys.readouterr().out)
    assert (seen["state"], seen["stage"], seen["done"], seen["total"]) == (
        "running",
        "trials",
        3,
        6,
    )
    trials = {each["trial"]: each for each in seen["trials"]}
    assert [trials[name]["state"] for name in names] == [
        "done",
        "failed",
        "running",
        "waiting",  # its process is gone
        "waiting",
        "done",
    ]
    assert trials[names[1]]["reason"] == "no"
    assert trials[names[2]]["seconds_left"] == 5.0
    assert trials[names[3]]["done"] == 30
    assert main(["status", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    line = next(line.split() for line in lines if names[2] in line)
    assert " ".join(line) == f"{names[2]} running 2/3 search: training 30 of 40 (75.0%) 5.0 s"


def test_torch_is_not_needed(tmp_path: Path) -> None:
    with Run.open(tmp_path, {"command": "train"}) as run:
        run.start()
    program = f"""
import sys
from transformable.cli.entry import main
assert main(["status", {str(tmp_path)!r}, "--json"]) == 0
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_the_last_count_is_kept_when_the_work_is_interrupted(tmp_path: Path) -> None:
    def interrupted(run: Run) -> None:
        with progress_file.progress_kept(run, Progress()) as progress:
            progress.start("training", 63, 0)
            progress.advance(44)  # too soon after the start to be written
            raise KeyboardInterrupt

    with Run.open(tmp_path, {"command": "train"}) as run, pytest.raises(KeyboardInterrupt):
        interrupted(run)
    record = ProgressRecord.read(tmp_path)
    assert record is not None
    assert (record.done, record.ended) == (44, "interrupted")
