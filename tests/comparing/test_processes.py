"""Trials in processes: what one does, the others do not feel."""

import multiprocessing
import time
from pathlib import Path

import pytest

from support import trial_jobs as working
from support.command_process import wait_for
from transformable.comparing.grid import Compare, Trial
from transformable.comparing.processes import Status, failure, run_trials, status


def run(args: Compare, folder: Path, work: object) -> dict[str, str | None]:
    left = iter(args.trials())
    ended: dict[str, str | None] = {}

    def finished(trial: Trial, reason: str | None) -> None:
        ended[trial.name] = reason

    run_trials(args, folder, work, lambda: next(left, None), finished, lambda: None)  # type: ignore[arg-type]
    return ended


def test_one_that_fails_or_is_killed_does_not_take_the_others_down(tmp_path: Path) -> None:
    args = Compare(methods="pfec,fpgm,uniform,cp", seeds=1)
    ended = run(args, tmp_path, working.mixed)
    assert ended == {
        "pfec-0.5-seed0": "RuntimeError: no filters left",
        "fpgm-0.5-seed0": "its process ended: killed by signal 9, perhaps for want of memory",
        "uniform-0.5-seed0": None,
        "cp-0.5-seed0": None,
    }
    assert (tmp_path / "cp-0.5-seed0" / "done").exists()
    assert failure(tmp_path / "pfec-0.5-seed0") == "RuntimeError: no filters left"
    assert "Traceback" in (tmp_path / "pfec-0.5-seed0" / "log.txt").read_text()


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    ended = run(Compare(methods="pfec,fpgm", seeds=1, jobs=2), tmp_path, working.meeting)
    assert ended == {"pfec-0.5-seed0": None, "fpgm-0.5-seed0": None}


def test_who_stops_lets_the_trials_save(tmp_path: Path) -> None:
    trials = iter([Trial(method="pfec", budget="0.5", seed=0)])

    def tick() -> None:
        if (tmp_path / "pfec-0.5-seed0" / "here").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trials(
            Compare(),
            tmp_path,
            working.endless,
            lambda: next(trials, None),
            lambda trial, reason: None,
            tick,
        )
    assert (tmp_path / "pfec-0.5-seed0" / "saved").exists()
    assert failure(tmp_path / "pfec-0.5-seed0") is None


def test_a_trial_does_not_outlive_its_parent(tmp_path: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=working.parent, args=(str(tmp_path),))
    process.start()
    folder = tmp_path / "pfec-0.5-seed0"
    wait_for(folder / "here", process)
    process.kill()
    process.join()
    end = time.monotonic() + 60
    while not (folder / "saved").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert (folder / "saved").exists()


def test_a_trial_says_how_far_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(tmp_path) is None
    told = Status(tmp_path)
    told.start("search: training", 200, 50)
    assert status(tmp_path) == "search: training 25%"
    told.advance(100)  # too soon
    assert status(tmp_path) == "search: training 25%"
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 2)
    told.advance(100)
    assert status(tmp_path) == "search: training 50%"
