"""How the commands that run many trials begin, go on and end."""

import json
import shlex
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from .. import data
from ..atomic_files import write_whole
from ..comparing.grid import Grid, Trial
from ..comparing.processes import Status, failure, run_trials, status, threads
from ..comparing.shared_queue import hidden
from ..comparing.trial import Bench
from ..costing.budget import Budget
from ..costing.cost import macs, params
from ..networks.build import network
from ..networks.speed import machine
from ..networks.weights import load_weights
from ..presets import SEARCHES, TEACHERS, TRANSFERS
from ..pruning.teacher import teach
from ..report import write_comparison
from ..runs.once import Stages
from ..runs.run_folder import Run
from ..tracing.space import Space
from ..training.interrupts import Interrupted
from ..training.train import check_steps
from .arguments import Train, job_of
from .job import chosen, load_trained, prepare, recipe_of, space_of, visible
from .outcome import Outcome
from .results_table import results_table

__all__ = ["Compared", "Contest", "run_left", "work"]


def work(args: Grid, trial: Trial, folder: Path) -> None:
    """One trial, in a process of its own."""
    fabric, dataset, model = prepare(args)
    load_weights(model, folder.parent / "teacher" / "model.safetensors")
    bench = Bench(
        args=args,
        teacher=model.eval(),
        dataset=dataset,
        space=space_of(args, model, dataset.info),
        searching=chosen(SEARCHES, args, epochs=args.search_epochs, tolerance=args.tolerance),
        distilling=lambda transfer: chosen(
            TRANSFERS, args, epochs=args.epochs, transfer=transfer, kd=args.kd
        ),
        recipe=recipe_of(args, dataset),
        fabric=fabric,
        progress=Status(folder),
    )
    bench(trial, folder)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The folder of a comparison, and what is known of it."""

    args: Grid
    folder: Path
    space: Space
    targets: dict[str, Budget]
    running: set[Trial] = field(default_factory=set)

    @classmethod
    def of(cls, args: Grid, folder: Path) -> "Contest":
        """Refuse what cannot be done before anything is."""
        info = data.info(args.data, args.data_dir)
        model = network(args.model, info)
        space = space_of(args, model, info)
        if args.teacher is not None and not (folder / "teacher" / "result.json").is_file():
            load_trained(model, args.model, args.teacher)
        targets = {
            budget: Budget.of(budget, space, metric=args.metric, tolerance=args.tolerance)
            for budget in args.budget_list()
        }
        return cls(args=args, folder=folder, space=space, targets=targets)

    def teach(self, run: Run, *, wait: bool = False) -> None:
        """The one teacher; if another process is at it, that is refused, or waited for."""
        args = self.args
        if (self.folder / "teacher" / "result.json").is_file():
            return
        fabric, dataset, model = prepare(args)
        if args.teacher is not None:
            load_trained(model, args.model, args.teacher)
        for presets in (TEACHERS, SEARCHES, TRANSFERS):
            check_steps(dataset.train, chosen(presets, args).batch_size, 1)
        settings = chosen(TEACHERS, args, epochs=args.teacher_epochs)
        config = Train(**job_of(args), **vars(settings))
        with visible() as bar:
            teach(
                Stages(run, fabric, wait=wait),
                config,
                model,
                dataset,
                trained=args.teacher is not None,
                recipe=recipe_of(args, dataset),
                fabric=fabric,
                seed=args.seed,
                checkpoint_seconds=args.checkpoint_seconds,
                progress=bar,
            )

    def done(self, trial: Trial) -> bool:
        """Whether all its runs are."""
        folder = self.folder / trial.name
        return all((folder / name / "result.json").exists() for name in self.args.transfers())

    def rows(self) -> list[dict[str, Any]]:
        """One for each run: how it went so far."""
        return [row for trial in self.args.trials() for row in self.rows_of(trial)]

    def rows_of(self, trial: Trial) -> list[dict[str, Any]]:
        """Those of one trial."""
        folder = self.folder / trial.name
        search = _read(folder / "search" / "result.json")
        rows = []
        for transfer in self.args.transfers():
            result = _read(folder / transfer / "result.json")
            reason = failure(folder)
            state = "done" if result else "failed" if reason else "waiting"
            if trial in self.running and not result:
                state, reason = "running", status(folder)
            names = ("accuracy", "top5", "macs", "params", "cost", "measured", "latency_ms")
            rows.append(
                {
                    "method": trial.method,
                    "budget": trial.budget,
                    "seed": trial.seed,
                    "transfer": transfer,
                    "state": state,
                    "reason": None if result else reason,
                    **{name: result.get(name) for name in names},
                    "teacher_latency_ms": result.get("teacher_latency_ms"),
                    "search_seconds": search.get("seconds"),
                    "train_seconds": result.get("seconds"),
                    "notes": search.get("notes", {}),
                }
            )
        return rows

    def facts(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """What all runs have in common."""
        args, full = self.args, self.space.full
        teacher = _read(self.folder / "teacher" / "result.json")
        seen = [row["teacher_latency_ms"] for row in rows if row["teacher_latency_ms"]]
        training = chosen(TRANSFERS, args, epochs=args.epochs)
        return {
            "kind": type(args).__name__.lower(),
            "title": f"{args.model} on {args.data}",
            "command": hidden(shlex.join(["tas", *sys.argv[1:]])),
            "metric": args.metric,
            "targets": {name: target.target() for name, target in self.targets.items()},
            "teacher": {
                "accuracy": teacher.get("accuracy"),
                "macs": macs(self.space, full),
                "params": params(self.space, full),
                "latency_ms": statistics.median(seen) if seen else None,
                # one that was given was not trained here
                "seconds": teacher.get("seconds") or None,
            },
            "epochs": training.epochs,
            "jobs": args.jobs,
            # what each trial had of them
            "environment": {**machine(), "threads": threads(args.jobs)},
        }

    def conclude(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Write what came out, and give it."""
        facts = self.facts(rows)
        rows = [_on_one_clock(row, facts["teacher"]["latency_ms"]) for row in rows]
        reasons = [row["reason"] for row in rows if row["state"] == "failed"]
        if reasons and len(reasons) == len(rows):
            raise ValueError(f"all {len(rows)} runs failed; the first: {reasons[0]}")
        result = {**facts, "rows": rows, "out": str(self.folder)}
        write_comparison(self.folder, rows, facts)
        write_whole(self.folder / "result.json", json.dumps(result, indent=2) + "\n")
        return result

    def run(
        self,
        take: Callable[[], Trial | None],
        ended: Callable[[Trial, str | None], None],
        tick: Callable[[], None],
    ) -> None:
        """Run what is taken until there is nothing to take, and tell of each that has ended."""

        def following() -> Trial | None:
            trial = take()
            if trial is not None:
                self.running.add(trial)
            return trial

        def finished(trial: Trial, reason: str | None) -> None:
            self.running.remove(trial)
            ended(trial, reason)
            self.tell(trial, reason)

        run_trials(self.args, self.folder, work, following, finished, tick)

    @contextmanager
    def shown(self, rows: Callable[[], list[dict[str, Any]]]) -> Iterator[Callable[[], None]]:
        """A table that is drawn anew by each call, if there is a terminal to draw it on."""
        console = Console(stderr=True)
        teacher = self.facts(rows())["teacher"]
        try:
            if not console.is_terminal:
                yield lambda: None
                return
            with Live(console=console, refresh_per_second=2, transient=True) as live:
                yield lambda: live.update(results_table(rows(), teacher))
        except KeyboardInterrupt:
            raise Interrupted(
                "what was done is kept; run the same command again to go on"
            ) from None

    def tell(self, trial: Trial, reason: str | None) -> None:
        """A line about a trial that has ended, for a log."""
        words = f"failed: {reason}"
        if reason is None:
            scores = (f"{r['transfer']} {r['accuracy']:.2%}" for r in self.rows_of(trial))
            words = ", ".join(scores)
        print(f"{trial.name}: {words}", file=sys.stderr, flush=True)


def run_left(args: Grid, folder: Path) -> dict[str, Any]:
    """Run the trials of a folder that are not done, and tell of all."""
    with Run.open(folder, args) as run:
        contest = Contest.of(args, folder)
        run.begin()
        contest.teach(run)
        left = iter([trial for trial in args.trials() if not contest.done(trial)])
        with contest.shown(contest.rows) as draw:
            contest.run(lambda: next(left, None), lambda trial, reason: None, draw)
        return contest.conclude(contest.rows())


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def _on_one_clock(row: dict[str, Any], teacher_ms: float | None) -> dict[str, Any]:
    """Each network was timed in turn with the teacher: its latency as a multiple of that one's."""
    ratio = None
    if row["latency_ms"] is not None:
        ratio = row["latency_ms"] / row["teacher_latency_ms"]
    return {
        **{name: value for name, value in row.items() if name != "teacher_latency_ms"},
        "latency_ms": None if ratio is None or teacher_ms is None else ratio * teacher_ms,
    }


@dataclass(frozen=True, kw_only=True)
class Compared(Outcome):
    """The table, and where everything is."""

    def show(self) -> Group:
        out = Path(self.result["out"])
        table = results_table(self.result["rows"], self.result["teacher"])
        lines = [f"{name}: {out / file}" for name, file in FILES.items()]
        return Group(self.title, table, *(Text(line) for line in lines))


FILES = {"report": "report.html", "table": "results.md", "runs": "results.csv"}
