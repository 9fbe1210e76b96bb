"""What ``tas sweep`` does."""

import time
from typing import Any

from ..comparing.comparison import Comparison
from ..comparing.shared_queue import SharedQueue, available
from ..comparing.trials import Trial
from ..comparing.trials_file import TrialsFile
from ..runs.progress_file import end_recorded
from ..runs.run_folder import Run
from .compare import (
    CompareOutcome,
    checked_sources,
    dry_run,
    live_table,
    plan_comparison,
    print_trial,
    run_comparison,
    say_how_long,
    side_by_side,
    train_shared_teacher,
    trial_work,
)
from .given_weights import check_given
from .options import MAY_DIFFER
from .outcome import Outcome
from .pruning_options import Sweep, split

__all__ = ["sweep"]


def sweep(options: Sweep, command: str) -> Outcome:
    """Run the trials that are not done yet, alone or together with others, and report all."""
    folder, budgets = options.folder("sweep-"), split(options.budgets)
    if options.dry_run:
        return dry_run(options, plan_comparison(options, budgets, folder, command))
    if not available():
        if options.storage is not None:
            raise ValueError("--storage needs Optuna; pip install 'transformable[sweep]'")
        return run_comparison(options, budgets, folder, command)
    check_given(folder, options)
    settings, may_differ = options.settings(), MAY_DIFFER | options.may_grow
    url = options.storage or f"sqlite:///{(folder / 'study.db').resolve()}"
    shared = {name: value for name, value in settings.items() if name not in may_differ}
    with end_recorded(folder):
        # other processes may share this folder: wait for it instead of refusing it
        with Run.open(folder, settings, may_differ=may_differ, wait=True) as run:
            comparison = plan_comparison(options, budgets, folder, command)
            files = checked_sources(options, comparison)
            say_how_long(options, comparison)
            run.start(files)
            queue = SharedQueue(url, options.study, comparison.trials, shared)
        train_shared_teacher(options, comparison, run, wait=True)
        queue.enqueue_missing()
        _run_shared(options, queue, comparison)
        with Run.open(folder, settings, may_differ=may_differ, wait=True):
            return CompareOutcome.of(options, comparison.conclude(comparison.rows(queue.rows())))


def _run_shared(options: Sweep, queue: SharedQueue, comparison: Comparison) -> None:
    """Run trials until neither this process nor another has anything left to do."""

    def finished(trial: Trial, reason: str | None) -> None:
        queue.finish(trial, comparison.rows_of(trial), reason)
        print_trial(comparison, trial, reason)

    def rows() -> list[dict[str, Any]]:
        return comparison.rows(queue.rows())

    kept = TrialsFile(comparison.folder, rows)
    try:
        with live_table(comparison, rows) as draw:

            def tick() -> None:
                queue.heartbeat()
                kept()
                draw()

            each = side_by_side(options, comparison.jobs)
            while True:
                comparison.run(trial_work(comparison), each, queue.take, finished, tick)
                if not queue.unfinished():
                    break
                time.sleep(1.0)
        kept.write()
    finally:
        queue.give_back()
