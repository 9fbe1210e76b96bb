"""One step of a job that is continued by several processes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.tiny_prune import OPTIONS, prepare
from transformable.cli.jobs import make_job, make_session
from transformable.cli.parsing import parse
from transformable.cli.pruning_options import Prune
from transformable.comparing.trials import Trial
from transformable.pruning.steps import apply_method
from transformable.runs.run_folder import Run, read_json


def test_only_the_first_process_opens_the_folder_of_a_method_with_measured_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(prepare(tmp_path))
    options = parse("prune", Prune, [*OPTIONS[1:], "--method=lccl", "--device=cpu"])
    trial = Trial(method="lccl", budget=options.budget, seed=0)
    job, session = make_job(options, tmp_path, trial), make_session(options)
    with Run.open("job", {}) as run:
        run.start()
        found, seconds = apply_method(job, replace(session, run=run))
    folder = Path("job/search")
    sent: list[Any] = [read_json(folder / "result.json"), folder]
    monkeypatch.setattr(
        session.fabric, "broadcast", lambda value, *_: sent.pop(0) if sent else value
    )
    settings = job.settings(method="lccl", search=job.searching)
    with Run.open(folder, settings):  # by the first process
        again, seconds_again = apply_method(job, session)
    assert not sent
    assert (again.cost, seconds_again) == (found.cost, seconds)
    assert again.restore_budget is not None
