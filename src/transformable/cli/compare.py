"""What ``tas compare`` does; ``tas sweep`` uses most of it."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live

from .. import data
from ..comparing.comparison import Comparison
from ..comparing.processes import Work
from ..comparing.shared_queue import hide_password
from ..comparing.trials import Trial, run_trial
from ..comparing.trials_file import TrialsFile
from ..costing.cost import macs, params
from ..methods import load_method
from ..networks.build import build_for_dataset
from ..networks.weights import load_weights
from ..pruning.dry_run import estimate_job
from ..pruning.steps import train_teacher
from ..report.formatting import counted, duration
from ..runs.progress_file import ProgressFile, end_recorded
from ..runs.run_folder import Run, check_folder
from ..searching.derive import check_possible
from ..training.devices import devices_in_turn
from ..training.interrupts import Interrupted
from ..training.train import check_steps
from .budgets import BudgetMaker, trace_space
from .given_weights import check_given, load_trained
from .jobs import make_job, make_session
from .options import MAY_DIFFER
from .outcome import Outcome, parts_rows
from .progress_bar import LINE_SECONDS, progress_bar
from .pruning_options import Compare, Sweep, TrialOptions, split
from .results_table import COMPARISON_FILES, results_table, unequal_passes
from .sources import refuse_other_network, sources_file, warn_of_other_sources

__all__ = [
    "CompareOutcome",
    "checked_sources",
    "compare",
    "dry_run",
    "live_table",
    "plan_comparison",
    "print_trial",
    "run_comparison",
    "say_how_long",
    "side_by_side",
    "train_shared_teacher",
    "trial_work",
]


def compare(options: Compare, command: str) -> Outcome:
    """Run the trials that are not done yet, and report all of them."""
    return run_comparison(
        options, [options.budget], options.folder(f"compare-{options.budget}-"), command
    )


def run_comparison(
    options: TrialOptions, budgets: Sequence[str], folder: Path, command: str
) -> Outcome:
    """Run the trials of a folder that are not done yet, without the help of other commands."""
    if options.dry_run:
        return dry_run(options, plan_comparison(options, budgets, folder, command))
    check_given(folder, options)
    may_differ = MAY_DIFFER | options.may_grow
    with Run.open(folder, options.settings(), may_differ=may_differ) as run, end_recorded(folder):
        comparison = plan_comparison(options, budgets, folder, command)
        files = checked_sources(options, comparison)
        say_how_long(options, comparison)
        run.start(files)
        train_shared_teacher(options, comparison, run)
        run_what_is_left(trial_work(comparison), options, comparison)
        return CompareOutcome.of(options, comparison.conclude(comparison.rows()))


def checked_sources(options: TrialOptions, comparison: Comparison) -> dict[str, str]:
    """The sources file to start the run with. If the network has changed since, trials that are
    left are refused; if none is left, a warning says so."""
    if all(map(comparison.is_done, comparison.trials)):
        warn_of_other_sources(comparison.folder, options)
        return {}  # the file stays as it is: the results belong to it
    refuse_other_network(comparison.folder, options)
    return sources_file(options)


def run_what_is_left(work: Work, options: Any, comparison: Comparison) -> None:
    """Run the trials that are not done yet, and show and save their progress."""
    left = iter([trial for trial in comparison.trials if not comparison.is_done(trial)])
    finished = partial(print_trial, comparison)
    kept = TrialsFile(comparison.folder, comparison.rows)
    with live_table(comparison, comparison.rows) as draw:

        def tick() -> None:
            kept()
            draw()

        comparison.run(
            work, side_by_side(options, comparison.jobs), lambda: next(left, None), finished, tick
        )
    kept.write()


def side_by_side(options: Any, jobs: int) -> list[Any]:
    """The options of each of the trials that run at the same time: each on a device of its own, if
    there are several GPUs and none is named."""
    return [replace(options, device=device) for device in devices_in_turn(options.device, jobs)]


def dry_run(options: TrialOptions, comparison: Comparison) -> Outcome:
    """How long a comparison would take, and how much memory each of its processes."""
    check_folder(comparison.folder)
    result = _estimate(options, comparison)
    return CompareDryRunOutcome(title=f"{options.model} on {options.data}", result=result)


def say_how_long(options: TrialOptions, comparison: Comparison) -> None:
    """Print a line about the runs that are left and their time, before they begin."""
    left = [trial for trial in comparison.trials if not comparison.is_done(trial)]
    if left:
        seen = _estimate(options, comparison)
        words = f"{counted(seen['left'], 'run')} of about {duration(seen['seconds_per_run'])} each"
        print(f"{words}: about {duration(seen['seconds'])} in all", file=sys.stderr, flush=True)


def _estimate(options: TrialOptions, comparison: Comparison) -> dict[str, Any]:
    left = [trial for trial in comparison.trials if not comparison.is_done(trial)]
    job = make_job(options, comparison.folder, comparison.trials[0])
    seen = estimate_job(job, make_session(options))
    there = (comparison.folder / "teacher" / "result.json").is_file()
    teacher = 0.0 if there else seen.seconds["teacher"]
    # of one kind of transfer; the others share its search
    more = (len(comparison.transfers) - 1) * (seen.trial - seen.seconds["search"])
    each = seen.trial + more
    return {
        "runs": len(comparison.trials),
        "left": len(left),
        "jobs": comparison.jobs,
        "seconds_per_run": each,
        "parts": {"teacher": teacher, "runs": each * len(left) / comparison.jobs},
        "seconds": teacher + each * len(left) / comparison.jobs,
        "memory_bytes": seen.memory,
    }


@dataclass(frozen=True, kw_only=True)
class CompareDryRunOutcome(Outcome):
    """The number of runs, their time, and the memory of each."""

    def show(self) -> Group:
        seen = self.result
        return self.table(
            [
                ("runs", f"{seen['left']} to do of {seen['runs']}, {seen['jobs']} at a time"),
                ("a run", f"about {duration(seen['seconds_per_run'])}"),
                *parts_rows(seen["parts"]),
                ("time", f"about {duration(seen['seconds'])} in all"),
                ("memory", f"about {seen['memory_bytes'] / 2**20:,.0f} MiB for each at a time"),
            ]
        )


def trial_work(comparison: Comparison) -> Work:
    """What runs one trial of a comparison in a process of its own."""
    return partial(execute_trial, command=comparison.facts["command"])


def execute_trial(options: TrialOptions, trial: Trial, folder: Path, command: str = "") -> None:
    """Run one trial in its own process; ``folder`` is that of the trial."""
    out = folder.parent
    session = replace(make_session(options), seed=trial.seed)
    job = make_job(options, out, trial, command)
    load_weights(job.model, out / "teacher" / "model.safetensors")
    job.model.eval()
    run_trial(job, options.transfers(), out / "teacher", folder, session)


def plan_comparison(
    options: TrialOptions, budgets: Sequence[str], folder: Path, command: str
) -> Comparison:
    """The trials that the options ask for; bad input is refused before anything is computed."""
    options.check_passes()
    methods = split(options.methods)
    for method in methods:
        load_method(method)
    info = data.info(options.data, options.data_dir, image_size=options.image_size)
    model = build_for_dataset(options.model, info)
    space = trace_space(options, model, info)
    if options.teacher is not None and not (folder / "teacher" / "result.json").is_file():
        load_trained(model, options, options.teacher, options.new_head)
    maker = BudgetMaker(options, model, space)
    targets = {budget: maker.make(budget) for budget in budgets}
    for target in targets.values():
        check_possible(space, target.within(max(options.tolerance, *options.wider(), 0.0)))
    seeds = range(options.seed, options.seed + options.seeds)
    return Comparison(
        folder=folder,
        # the first seed of all methods first
        trials=[
            Trial(method=method, budget=budget, seed=seed)
            for seed, budget, method in itertools.product(seeds, budgets, methods)
        ],
        transfers=options.transfers(),
        metric=options.metric,
        jobs=options.jobs,
        facts={
            "kind": "sweep" if isinstance(options, Sweep) else "compare",
            "title": f"{options.model} on {options.data}",
            "command": hide_password(command),
            "targets": {name: target.target() for name, target in targets.items()},
            "teacher": {"macs": macs(space, space.full), "params": params(space, space.full)},
            "passes": options.all_passes(),
            "epochs": options.student.epochs,
            "given": options.given,
        },
    )


def train_shared_teacher(
    options: TrialOptions, comparison: Comparison, run: Run, *, wait: bool = False
) -> None:
    """Train the one teacher; if another process is training it, that is refused, or waited for."""
    if (comparison.folder / "teacher" / "result.json").is_file():
        return
    session = make_session(options)
    job = make_job(options, comparison.folder, comparison.trials[0])
    check_steps(job.dataset.train, options.train.batch_size, 1)
    run.start(inputs={"images": job.dataset.fingerprint})
    with progress_bar() as bar:
        progress = ProgressFile(comparison.folder, bar)
        train_teacher(job, replace(session, run=run, progress=progress), wait=wait)


@contextmanager
def live_table(
    comparison: Comparison, rows: Callable[[], list[dict[str, Any]]]
) -> Iterator[Callable[[], None]]:
    """A table of the rows on the terminal, if there is one; calling the result draws it again."""
    console = Console(stderr=True)
    teacher = comparison.teacher(rows())
    try:
        if not console.is_terminal:
            yield LinesNowAndThen(rows)
            return
        with Live(console=console, refresh_per_second=2, transient=True) as live:
            targets = comparison.facts["targets"]
            yield lambda: live.update(results_table(rows(), teacher, targets))
    except KeyboardInterrupt:
        raise Interrupted("what was done is kept; run the same command again to continue") from None


class LinesNowAndThen:
    """Prints, where there is no terminal, how many runs are done and the stage of the others."""

    def __init__(self, rows: Callable[[], list[dict[str, Any]]]) -> None:
        self._rows, self._printed = rows, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() - self._printed < LINE_SECONDS:
            return
        self._printed = time.monotonic()
        rows = self._rows()
        done = sum(row["state"] == "done" for row in rows)
        running = [
            f"{row['method']} {row['budget']} seed {row['seed']} ({row['reason'] or 'starting'})"
            for row in rows
            if row["state"] == "running"
        ]
        parts = [f"{done} of {len(rows)} runs are done", *dict.fromkeys(running)]
        print("; ".join(parts), file=sys.stderr, flush=True)


def print_trial(comparison: Comparison, trial: Trial, reason: str | None) -> None:
    """Print a line about a trial that has ended."""
    words = f"failed: {reason}"
    if reason is None:
        scores = (f"{r['transfer']} {r['accuracy']:.2%}" for r in comparison.rows_of(trial))
        words = ", ".join(scores)
    print(f"{trial.name}: {words}", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class CompareOutcome(Outcome):
    """The results of the trials as a table, and the files that hold them."""

    def show(self) -> Group:
        table = results_table(*(self.result[name] for name in ("rows", "teacher", "targets")))
        unequal = unequal_passes(self.result["rows"], self.result["passes"])
        return self.page(table, *unequal, *self.lines())

    def lines(self) -> list[str]:
        """The files, a line for each."""
        out = Path(self.result["out"])
        return [f"{name}: {out / file}" for name, file in COMPARISON_FILES.items()]
