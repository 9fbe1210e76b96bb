"""The trials of a sweep in an Optuna study."""

import time
from pathlib import Path
from typing import Any

import pytest

from transformable.comparing import shared_queue as module
from transformable.comparing.grid import Sweep, Trial
from transformable.comparing.shared_queue import Study

A, B = (Trial(method="tas", budget=budget, seed=0) for budget in ("0.3", "0.5"))
BOTH = Sweep(budgets="0.3,0.5")
ONE = Sweep(budgets="0.3")
ROWS = [{"accuracy": 0.5, "cost": 10}, {"accuracy": 0.75, "cost": 12}]


def patiently(study: Study) -> Trial | None:
    """What it is given, once whoever had it counts as gone."""
    end = time.monotonic() + 30
    while (found := study.take()) is None and time.monotonic() < end:
        time.sleep(0.2)
        study.beat()
    return found


def test_each_trial_is_given_once(tmp_path: Path) -> None:
    first, second = (Study(BOTH, tmp_path) for _ in range(2))
    first.put()
    second.put()
    taken = [first.take(), second.take(), first.take(), second.take()]
    assert taken == [A, B, None, None]
    first.finish(A, ROWS, None)
    assert second.rows() == {A: ROWS}
    assert second.busy()
    second.finish(B, ROWS, "it failed")
    assert not first.busy()
    assert first.rows() == {A: ROWS, B: ROWS}


def test_the_same_trial_put_in_line_twice_at_once_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (Study(ONE, tmp_path) for _ in range(2))
    # both look before either has put anything in line
    monkeypatch.setattr(Study, "_live", lambda self: [])
    first.put()
    second.put()
    monkeypatch.undo()
    assert second.take() == A
    assert first.take() is None
    second.finish(A, ROWS, None)
    assert not first.busy()


def test_what_failed_is_put_in_line_again_by_the_next_call(tmp_path: Path) -> None:
    first = Study(BOTH, tmp_path)
    first.put()
    assert first.take() == A
    first.finish(A, ROWS, "it failed")
    second = Study(BOTH, tmp_path)
    second.put()
    assert [second.take(), second.take()] == [B, A]


def test_who_leaves_gives_back_what_is_not_finished(tmp_path: Path) -> None:
    first, second = (Study(ONE, tmp_path) for _ in range(2))
    first.put()
    assert first.take() == A
    assert second.take() is None
    first.leave()
    assert second.busy()
    assert second.take() == A


def test_what_others_want_is_left_in_line(tmp_path: Path) -> None:
    other, ours = Study(BOTH, tmp_path), Study(Sweep(budgets="0.5"), tmp_path)
    other.put()
    assert ours.take() == B
    ours.finish(B, ROWS, None)
    assert ours.take() is None
    assert not ours.busy()
    assert other.take() == A


def test_a_trial_that_was_taken_over_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT", 1)
    monkeypatch.setattr(module, "GRACE", 1)
    asleep, other = (Study(ONE, tmp_path) for _ in range(2))
    asleep.put()
    assert asleep.take() == A
    assert patiently(other) == A
    asleep.finish(A, [{"accuracy": 0.0, "cost": 1}], None)
    other.finish(A, ROWS, None)
    assert other.rows() == {A: ROWS}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"transfer": "init"}, {"transfer": "init,kd"}, "transfer is init there and init,kd here"),
        ({"preset": "quick"}, {"preset": "paper"}, "preset is quick there and paper here"),
    ],
)
def test_the_same_for_all_who_share_it(
    first: dict[str, Any], second: dict[str, Any], message: str, tmp_path: Path
) -> None:
    Study(Sweep(**first), tmp_path)
    with pytest.raises(ValueError, match=message):
        Study(Sweep(**second), tmp_path)


def test_the_trial_of_a_process_that_is_gone_goes_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BEAT", 1)
    monkeypatch.setattr(module, "GRACE", 2)
    gone, other = (Study(ONE, tmp_path) for _ in range(2))
    gone.put()
    assert gone.take() == A
    assert other.take() is None
    other.beat()
    assert other.take() is None  # not yet
    assert patiently(other) == A


def test_a_study_belongs_to_one_set_of_settings(tmp_path: Path) -> None:
    Study(Sweep(epochs=2), tmp_path)
    Study(Sweep(epochs=2, budgets="0.1,0.2", jobs=2, methods="pfec"), tmp_path)
    with pytest.raises(ValueError, match="another sweep: epochs is 2 there and 3 here"):
        Study(Sweep(epochs=3), tmp_path)
    Study(Sweep(epochs=3, study="other"), tmp_path)


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////no/such/folder/study.db"])
def test_a_storage_that_cannot_be_opened_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"cannot open the study in storage '{url}'"):
        Study(Sweep(storage=url), tmp_path)
