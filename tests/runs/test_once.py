"""Work in a run folder is done once."""

from pathlib import Path
from typing import Any

import pytest

from transformable.runs.once import once
from transformable.runs.run_folder import Run


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    runs: list[Run | None] = []

    def work(run: Run | None) -> dict[str, Any]:
        runs.append(run)
        return {"calls": len(runs)}

    for _ in range(2):
        assert once(tmp_path / "run", {"seed": 0}, work) == {"calls": 1}
    assert len(runs) == 1
    with pytest.raises(ValueError, match="seed is 0 there and 1 here"):
        once(tmp_path / "run", {"seed": 1}, work)


def test_work_that_fails_at_once_leaves_no_folder(tmp_path: Path) -> None:
    def work(run: Run | None) -> dict[str, Any]:
        raise ValueError("bad input")

    with pytest.raises(ValueError, match="bad input"):
        once(tmp_path / "run", {"seed": 0}, work)
    assert not (tmp_path / "run").exists()


def test_other_processes_go_the_way_of_the_first(tmp_path: Path) -> None:
    # a process without a folder gets what the first one found in its own
    done = {"accuracy": 0.5}
    assert once(None, {}, lambda run: {"accuracy": 0.0}, share=lambda _: done) == done
    assert once(None, {}, lambda run: {"run": run}) == {"run": None}
