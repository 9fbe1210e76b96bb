"""What ``tas prune`` does."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from ..comparing.trials import Trial
from ..extras import missing_extras
from ..methods import load_method
from ..pruning.dry_run import estimate_job
from ..pruning.prune import run_job
from ..report import write_report
from ..report.chance import accuracy_remarks
from ..report.formatting import amount, band_text, duration, passes
from ..runs.run_folder import Run, check_folder
from ..training.session import Session
from .compare import CompareOutcome, run_comparison
from .jobs import make_job, make_session, run_once, started
from .outcome import Outcome, parts_rows, verdicts
from .pruning_options import Prune, as_sweep, split

__all__ = ["prune"]

REASONS = 3
"""Reasons why layers keep their width that are printed."""


def prune(options: Prune, command: str) -> Outcome | None:
    """Prune in a run folder; None in all processes but the first."""
    method = "" if options.method == "tas" else f"{options.method}-"
    prefix = f"prune-{method}{options.budget}-"
    budgets = split(options.budget)
    if len(budgets) == 1:
        options = replace(options, budget=budgets[0])
    elif budgets:
        load_method(options.method)  # which is one method here
        outcome = run_comparison(as_sweep(options), budgets, options.folder(prefix), command)
        return outcome if options.dry_run else BudgetsOutcome.of(options, outcome.result)
    if options.dry_run:
        return _dry_run(options, options.folder(prefix))
    session = make_session(options)
    work = partial(_prune, options, command, session)
    result = run_once(options, session, prefix, work)
    if result is None:
        return None
    if not (Path(result["out"]) / "report.html").exists():
        write_report(Path(result["out"]))
    return PruneOutcome.of(options, result)


def _dry_run(options: Prune, folder: Path) -> Outcome:
    check_folder(folder)
    session = make_session(options)
    trial = Trial(method=options.method, budget=options.budget, seed=options.seed)
    job = make_job(options, folder, trial)
    job.check(session)
    seen = estimate_job(job, session)
    return JobDryRunOutcome(
        title=f"{options.model} on {options.data}: a job",
        result={
            "target": job.budget.target(),
            "parts": dict(seen.seconds),
            "seconds": seen.total,
            "memory_bytes": seen.memory,
        },
    )


@dataclass(frozen=True, kw_only=True)
class JobDryRunOutcome(Outcome):
    """The time of the parts of a job, and the memory at its peak."""

    def show(self) -> Group:
        seen, target = self.result, self.result["target"]
        return self.table(
            [
                (f"target {target['metric']}", band_text(target)),
                *parts_rows(seen["parts"]),
                ("time", f"about {duration(seen['seconds'])} in all"),
                ("memory", f"about {seen['memory_bytes'] / 2**20:,.0f} MiB"),
            ]
        )


def _prune(
    options: Prune, command: str, session: Session, folder: Path, run: Run | None
) -> dict[str, Any]:
    trial = Trial(method=options.method, budget=options.budget, seed=options.seed)
    job = make_job(options, folder, trial, command, fabric=session.fabric)
    job.check(session)
    with started(options, session, run, job.dataset) as session:
        return run_job(job, session).summary


def _passes_lines(result: dict[str, Any]) -> list[str]:
    """The passes over the training images, if they were counted."""
    spent = result.get("passes")
    if not spent:
        return []
    parts = ", ".join(f"{name} {passes(count)}" for name, count in spent.items())
    return [f"passes over the training images: {passes(sum(spent.values()))} ({parts})"]


def _fixed_lines(result: dict[str, Any]) -> list[str]:
    """The first reasons for which layers keep their width."""
    fixed = result.get("fixed", [])
    more = [f"{len(fixed) - REASONS} more reasons are in the report"] * (len(fixed) > REASONS)
    return [*fixed[:REASONS], *more]


def _budget_lines(result: dict[str, Any]) -> list[str]:
    """The band of the budget; for a latency, and for limits, also what the network has."""
    target = result["target"]
    lines = [f"budget: {target['metric']} of {band_text(target)}"]
    for promise, metric, verdict in verdicts(target, result["after"]):
        lines.append(f"{promise}: {verdict}, {_cost(result, metric)}")
    return lines


def _cost(result: dict[str, Any], metric: str) -> str:
    """The cost of the small network; for a latency also how it is known."""
    cost = amount(metric, result["after"][metric])
    if metric != "latency":
        return cost
    full = amount(metric, result["before"][metric])
    if "timed" not in result:
        return f"{cost} by the table, not measured here; the unpruned network takes {full}"
    noise = result["timed"]["noise"]
    return f"{cost}; the unpruned network takes {full} (calls vary by {noise:.0%})"


@dataclass(frozen=True, kw_only=True)
class BudgetsOutcome(CompareOutcome):
    """The results for several budgets, with the folders of the networks."""

    def lines(self) -> list[str]:
        out, found = Path(self.result["out"]), []
        for row in self.result["rows"]:
            if row["state"] == "done":
                trial = Trial(method=row["method"], budget=row["budget"], seed=row["seed"])
                folder = out / trial.name / row["transfer"]
                place = next(f for f in (folder / "export", folder / "student") if f.is_dir())
                found.append(f"network of {row['budget']}: {place}")
        return [*found, *super().lines()]


@dataclass(frozen=True, kw_only=True)
class PruneOutcome(Outcome):
    """The numbers of both networks as a table, then the budget, the speed and the files."""

    def show(self) -> Group:
        before, after = self.result["before"], self.result["after"]
        table = Table()
        table.add_column("", style="bold")
        for name in ("before", "after", "change"):
            table.add_column(name, justify="right")
        change = 100 * (after["accuracy"] - before["accuracy"])
        shares = (f"{side['accuracy']:.2%}" for side in (before, after))
        table.add_row("accuracy", *shares, f"{change:+.2f} points")
        for name, key, form in (
            ("MACs", "macs", "{:,}"),
            ("params", "params", "{:,}"),
            ("file", "bytes", "{:,} bytes"),
            ("latency", "latency_ms", "{:.3g} ms"),
        ):
            a, b = before[key], after[key]
            table.add_row(name, form.format(a), form.format(b), f"{b / a - 1:+.1%}")
        out = Path(self.result["out"])
        threads = self.result["environment"]["threads"]
        how = f"median at batch 1 in PyTorch (threads: {threads})"
        if "conditions" in self.result["target"]:
            how = f"as the budget counts it, in {self.result['target']['conditions']}"
        lines = [
            *_budget_lines(self.result),
            f"latency: {how}. {self.result['faster']}",
            *accuracy_remarks(self.result),
            *_fixed_lines(self.result),
            *_passes_lines(self.result),
            f"network: {out / ('export' if 'export' in self.result else 'student')}",
            f"report: {out / 'report.html'}",
            *missing_extras(),
        ]
        return self.page(table, *lines)
