"""Trials in processes: what one does, the others do not feel."""

import multiprocessing
import time
from pathlib import Path

import pytest

from support import trial_jobs as working
from support.command_process import wait_for
from transformable.comparing.processes import Logs, Work, run_trials
from transformable.comparing.trials import Trial


def trial(method: str) -> Trial:
    return Trial(method=method, budget="0.5", seed=0)


def run(methods: str, folder: Path, work: Work, jobs: int = 1) -> dict[str, str | None]:
    left = iter([trial(method) for method in methods.split(",")])
    ended: dict[str, str | None] = {}

    def finished(trial: Trial, reason: str | None) -> None:
        ended[trial.name] = reason

    run_trials(work, [None] * jobs, folder, lambda: next(left, None), finished, lambda: None)
    return ended


def test_one_that_fails_or_is_killed_does_not_take_the_others_down(tmp_path: Path) -> None:
    ended = run("pfec,fpgm,uniform,cp", tmp_path, working.mixed)
    assert ended == {
        "pfec-0.5-seed0": "RuntimeError: no filters left",
        "fpgm-0.5-seed0": "its process ended: killed by signal 9, probably out of memory",
        "uniform-0.5-seed0": None,
        "cp-0.5-seed0": None,
    }
    assert (tmp_path / "cp-0.5-seed0" / "done").exists()
    assert Logs(tmp_path, trial("pfec")).failure() == "RuntimeError: no filters left"
    assert "Traceback" in (tmp_path / "logs" / "pfec-0.5-seed0.log").read_text()


def test_jobs_run_side_by_side(tmp_path: Path) -> None:
    ended = run("pfec,fpgm", tmp_path, working.meeting, jobs=2)
    assert ended == {"pfec-0.5-seed0": None, "fpgm-0.5-seed0": None}


def test_trials_at_the_same_time_have_different_options(tmp_path: Path) -> None:
    left = iter([trial(method) for method in ("pfec", "fpgm", "uniform", "cp")])
    ended: list[str | None] = []
    run_trials(
        working.meeting_another,
        ["one", "other"],
        tmp_path,
        lambda: next(left, None),
        lambda trial, reason: ended.append(reason),
        lambda: None,
    )
    assert ended == [None] * 4
    given = {path.parent.name.split("-")[0]: path.read_text() for path in tmp_path.glob("*/option")}
    assert given["pfec"] == "one"
    assert given["fpgm"] == "other"
    assert {*given.values()} == {"one", "other"}
    assert len(given) == 4


def test_who_stops_lets_the_trials_save(tmp_path: Path) -> None:
    trials = iter([trial("pfec")])

    def tick() -> None:
        if (tmp_path / "pfec-0.5-seed0" / "here").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_trials(
            working.endless,
            [None],
            tmp_path,
            lambda: next(trials, None),
            lambda trial, reason: None,
            tick,
        )
    assert (tmp_path / "pfec-0.5-seed0" / "saved").exists()
    assert Logs(tmp_path, trial("pfec")).failure() is None


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


def test_asking_for_what_was_said_makes_no_folder(tmp_path: Path) -> None:
    assert Logs(tmp_path / "run", trial("pfec")).failure() is None
    assert list(tmp_path.iterdir()) == []
