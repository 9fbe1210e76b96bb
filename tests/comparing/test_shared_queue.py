"""The trials of a sweep in an Optuna study."""

import time
from pathlib import Path
from typing import Any

import pytest

from transformable.comparing import shared_queue as module
from transformable.comparing.shared_queue import SharedQueue
from transformable.comparing.trials import Trial

A, B = (Trial(method="tas", budget=budget, seed=0) for budget in ("0.3", "0.5"))
BOTH, ONE = (A, B), (A,)
SETTINGS = {"transfer": "init", "student": {"epochs": 2}}
ROWS = [{"accuracy": 0.5, "cost": 10}, {"accuracy": 0.75, "cost": 12}]


def queue(
    trials: tuple[Trial, ...], folder: Path, settings: dict[str, Any] | None = None
) -> SharedQueue:
    return SharedQueue(f"sqlite:///{folder / 'study.db'}", "sweep", trials, settings or SETTINGS)


def patiently(study: SharedQueue) -> Trial | None:
    """What it is given, once whoever had it counts as gone."""
    end = time.monotonic() + 30
    while (found := study.take()) is None and time.monotonic() < end:
        time.sleep(0.2)
        study.heartbeat()
    return found


def test_each_trial_is_given_once(tmp_path: Path) -> None:
    first, second = (queue(BOTH, tmp_path) for _ in range(2))
    first.enqueue_missing()
    second.enqueue_missing()
    taken = [first.take(), second.take(), first.take(), second.take()]
    assert taken == [A, B, None, None]
    first.finish(A, ROWS, None)
    assert second.rows() == {A: ROWS}
    assert second.unfinished()
    second.finish(B, ROWS, "it failed")
    assert not first.unfinished()
    assert first.rows() == {A: ROWS, B: ROWS}


def test_the_same_trial_put_in_line_twice_at_once_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (queue(ONE, tmp_path) for _ in range(2))
    # both look before either has put anything in line
    monkeypatch.setattr(SharedQueue, "_live_trials", lambda self: [])
    first.enqueue_missing()
    second.enqueue_missing()
    monkeypatch.undo()
    assert second.take() == A
    assert first.take() is None
    second.finish(A, ROWS, None)
    assert not first.unfinished()


def test_what_failed_is_put_in_line_again_by_the_next_call(tmp_path: Path) -> None:
    first = queue(BOTH, tmp_path)
    first.enqueue_missing()
    assert first.take() == A
    first.finish(A, ROWS, "it failed")
    second = queue(BOTH, tmp_path)
    second.enqueue_missing()
    assert [second.take(), second.take()] == [B, A]


def test_who_leaves_gives_back_what_is_not_finished(tmp_path: Path) -> None:
    first, second = (queue(ONE, tmp_path) for _ in range(2))
    first.enqueue_missing()
    assert first.take() == A
    assert second.take() is None
    first.give_back()
    assert second.unfinished()
    assert second.take() == A


def test_what_others_want_is_left_in_line(tmp_path: Path) -> None:
    other, ours = queue(BOTH, tmp_path), queue((B,), tmp_path)
    other.enqueue_missing()
    assert ours.take() == B
    ours.finish(B, ROWS, None)
    assert ours.take() is None
    assert not ours.unfinished()
    assert other.take() == A


def test_a_trial_that_was_taken_over_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 1)
    monkeypatch.setattr(module, "GRACE_SECONDS", 1)
    asleep, other = (queue(ONE, tmp_path) for _ in range(2))
    asleep.enqueue_missing()
    assert asleep.take() == A
    assert patiently(other) == A
    asleep.finish(A, [{"accuracy": 0.0, "cost": 1}], None)
    other.finish(A, ROWS, None)
    assert other.rows() == {A: ROWS}


def test_the_trial_of_a_process_that_is_gone_goes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 1)
    monkeypatch.setattr(module, "GRACE_SECONDS", 2)
    gone, other = (queue(ONE, tmp_path) for _ in range(2))
    gone.enqueue_missing()
    assert gone.take() == A
    assert other.take() is None
    other.heartbeat()
    assert other.take() is None  # not yet
    assert patiently(other) == A


def test_a_study_belongs_to_one_set_of_settings(tmp_path: Path) -> None:
    queue(ONE, tmp_path)
    queue(BOTH, tmp_path)
    for settings, message in (
        ({**SETTINGS, "transfer": "init,kd"}, "transfer is init there and init,kd here"),
        ({**SETTINGS, "student": {"epochs": 3}}, r"sweep: student\.epochs is 2 there and 3 here"),
    ):
        with pytest.raises(ValueError, match=message):
            queue(BOTH, tmp_path, settings)
    SharedQueue(f"sqlite:///{tmp_path / 'study.db'}", "other", BOTH, {"transfer": "kd"})


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////no/such/folder/study.db"])
def test_a_storage_that_cannot_be_opened_is_named(url: str) -> None:
    with pytest.raises(ValueError, match=f"cannot open the study in storage '{url}'"):
        SharedQueue(url, "sweep", BOTH, SETTINGS)
