"""What ``tas prune`` does."""

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..costing.budget import Budget
from ..presets import SEARCHES, TEACHERS, TRANSFERS
from ..pruning.pipeline import Pipeline
from ..report import write_report
from ..runs.progress import Silent
from ..runs.run_folder import Run, default_folder
from .arguments import Prune
from .job import chosen, first_process, load_trained, prepare, recipe_of, space_of, visible
from .outcome import Outcome

__all__ = ["prune"]


def prune(args: Prune) -> Outcome | None:
    """Prune in a run folder; None in all processes but the first."""
    folder = Path(args.out) if args.out else default_folder(args, "prune-")
    if not first_process():
        pipeline = _pipeline(args, folder)
        pipeline.fabric.launch()
        pipeline(None)
        return None
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            pipeline = _pipeline(args, folder)
            pipeline.check()
            run.begin()
            pipeline.fabric.launch()
            with visible() as bar:
                result = replace(pipeline, progress=bar)(run).summary
        elif not (folder / "report.html").exists():
            write_report(folder)
    return Made(title=f"{args.model} on {args.data}", result={**result, "out": str(folder)})


def _pipeline(args: Prune, folder: Path) -> Pipeline:
    fabric, dataset, model = prepare(args)
    # once it is in the run folder, it may be gone elsewhere
    if args.teacher is not None and not (folder / "teacher" / "result.json").is_file():
        load_trained(model, args.model, args.teacher)
    space = space_of(args, model, dataset.info)
    return Pipeline(
        model=model,
        dataset=dataset,
        space=space,
        budget=Budget.of(args.budget, space, metric=args.metric, tolerance=args.tolerance),
        trained=args.teacher is not None,
        training=chosen(TEACHERS, args, epochs=args.teacher_epochs),
        searching=chosen(SEARCHES, args, epochs=args.search_epochs, tolerance=args.tolerance),
        distilling=chosen(
            TRANSFERS,
            args,
            epochs=args.epochs,
            transfer=None if args.transfer == "preset" else args.transfer,
            kd=args.kd,
        ),
        job=args,
        recipe=recipe_of(args, dataset),
        fabric=fabric,
        progress=Silent(),
        command=shlex.join(["tas", *sys.argv[1:]]),
    )


@dataclass(frozen=True, kw_only=True)
class Made(Outcome):
    """Before, after and change; then what the network looks like, and where everything is."""

    def show(self) -> Group:
        before, after = self.result["before"], self.result["after"]
        table = Table()
        table.add_column("", style="bold")
        for name in ("before", "after", "change"):
            table.add_column(name, justify="right")
        change = 100 * (after["accuracy"] - before["accuracy"])
        table.add_row(
            "accuracy",
            f"{before['accuracy']:.2%}",
            f"{after['accuracy']:.2%}",
            f"{change:+.2f} points",
        )
        for name, key, form in (
            ("MACs", "macs", "{:,}"),
            ("params", "params", "{:,}"),
            ("file", "bytes", "{:,} bytes"),
            ("latency", "latency_ms", "{:.3g} ms"),
        ):
            a, b = before[key], after[key]
            table.add_row(name, form.format(a), form.format(b), f"{b / a - 1:+.1%}")
        target = self.result["target"]
        out = Path(self.result["out"])
        lines = [
            f"budget: {target['low']:,} to {target['high']:,} {target['metric']}",
            f"latency: median at batch 1 in PyTorch (threads: "
            f"{self.result['environment']['threads']}). {self.result['faster']}",
            f"network: {out / 'export'}",
            f"report: {out / 'report.html'}",
        ]
        return Group(self.title, table, *(Text(line) for line in lines))
