"""What ``tas sweep`` does."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..comparing.grid import Sweep, Trial
from ..comparing.shared_queue import Study, available
from ..runs.run_folder import Run, default_folder
from .contest import Compared, Contest, run_left

__all__ = ["sweep"]


def sweep(args: Sweep) -> Compared:
    """Run the trials that are not done, alone or with others, and tell of all."""
    folder = Path(args.out) if args.out else default_folder(args, "sweep-")
    title = f"{args.model} on {args.data}"
    if not available():
        if args.storage is not None:
            raise ValueError("--storage needs Optuna; pip install 'transformable[sweep]'")
        return Compared(title=title, result=run_left(args, folder))
    # others may work in this folder at the same time, but not in the same moment
    with Run.open(folder, args, wait=True) as run:
        contest = Contest.of(args, folder)
        run.begin()
        study = Study(args, folder)
    contest.teach(run, wait=True)
    study.put()

    def rows() -> list[dict[str, Any]]:
        known = {t: each for t, each in study.rows().items() if t not in contest.running}
        return [
            row
            for trial in args.trials()
            for row in (known[trial] if trial in known else contest.rows_of(trial))
        ]

    _work(study, contest, rows)
    with Run.open(folder, args, wait=True):
        return Compared(title=title, result=contest.conclude(rows()))


def _work(study: Study, contest: Contest, rows: Callable[[], list[dict[str, Any]]]) -> None:
    """Until nobody has anything left to do."""

    def ended(trial: Trial, reason: str | None) -> None:
        study.finish(trial, contest.rows_of(trial), reason)

    try:
        with contest.shown(rows) as draw:

            def tick() -> None:
                study.beat()
                draw()

            while True:
                contest.run(study.take, ended, tick)
                if not study.busy():
                    break
                time.sleep(1.0)
    finally:
        study.leave()
