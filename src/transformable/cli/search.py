"""What ``tas search`` does."""

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from rich.console import Group
from rich.table import Table
from torch import nn

from ..costing.budget import MEASURES, Budget
from ..costing.cost import macs, params
from ..data import Dataset
from ..networks.weights import load_weights
from ..presets import quick
from ..runs.once import Stages
from ..runs.progress import Bar
from ..runs.run_folder import Run, default_folder
from ..searching.derive import check_possible
from ..searching.search import halves
from ..searching.search import search as search_sizes
from ..shape import Shape
from ..tracing.space import Space
from ..training.train import check_steps
from ..training.train import train as train_model
from .arguments import Job, Search, Train
from .job import first_process, load_trained, prepare, recipe_of, space_of, visible
from .outcome import Outcome
from .plan import plan

__all__ = ["search"]


def search(args: Search) -> Outcome | None:
    """Search in a run folder; None in all processes but the first."""
    fabric, dataset, model = prepare(args)
    space = space_of(args, model, dataset.info)
    budget = Budget.of(args.budget, space, metric=args.metric, tolerance=args.tolerance)
    if args.weights:
        load_trained(model, args.model, args.weights)
    check_possible(space, budget)
    for half in halves(dataset.train, args.seed):
        check_steps(half, args.batch_size, args.devices)
    title = f"{args.model} on {args.data}"
    if args.dry_run:
        return plan(args, model, dataset, space, budget, fabric)
    if not first_process():
        _search(args, model, dataset, space, budget, fabric, None)
        return None
    folder = Path(args.out) if args.out else default_folder(args, "search-")
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            found = _search(args, model, dataset, space, budget, fabric, run)
            result = {**found, "out": str(folder)}
            run.save_result(result)
    return Found(title=title, result={**result, "out": str(folder)}, space=space)


@dataclass(frozen=True, kw_only=True)
class Found(Outcome):
    """The result with its shape drawn up by stages."""

    space: Space

    def show(self) -> Group:
        target = self.result["target"]
        metric, cost = target["metric"], self.result[target["metric"]]
        full = MEASURES[metric](self.space, self.space.full)
        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        table.add_row(metric, f"{cost:,} of {full:,} ({cost / full:.1%})")
        table.add_row("target", f"{target['value']:,.0f}, {target['low']:,} to {target['high']:,}")
        table.add_row("derived by", _how(self.result))
        for name, text in stages(self.space, Shape.from_json(json.dumps(self.result["shape"]))):
            table.add_row(name, text)
        for name in ("discrepancy", "entropy", "seconds"):
            table.add_row(name, f"{self.result[name]:.4g}")
        table.add_row("shape in", f"{self.result['out']}/shape.json")
        return Group(self.title, table)


def stages(space: Space, shape: Shape) -> list[tuple[str, str]]:
    """For each stage how many of its blocks are kept and how wide their layers are.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> stages(space, space.full.replace(depths={**space.full.depths, "stages.0": 1}))[:2]
    [('widths', 'stem.0: 16'), ('stages.0', '1 of 3 blocks: 16 16')]
    """
    inside = {name: space.stages[name].blocks for name in space.depths}
    blocks = {block for kept in inside.values() for block in kept}
    outside = {
        n: w for n, w in shape.widths.items() if not any(n.startswith(f"{b}.") for b in blocks)
    }
    rows = [("widths", ", ".join(f"{name}: {width}" for name, width in outside.items()))]
    for stage, depth in shape.depths.items():
        widths = [
            " ".join(str(w) for n, w in shape.widths.items() if n.startswith(f"{block}."))
            for block in inside[stage][:depth]
        ]
        rows.append((stage, f"{depth} of {len(inside[stage])} blocks: {', '.join(widths)}"))
    return [row for row in rows if row[1]]


def _how(result: dict[str, Any]) -> str:
    if result["derived_by"] == "argmax":
        return "argmax: the largest probabilities are inside the band"
    return f"most probable shape in the band, {result['given_up']:.3g} nats below the argmax"


def _search(
    args: Search,
    model: nn.Module,
    dataset: Dataset,
    space: Space,
    budget: Budget,
    fabric: Fabric,
    run: Run | None,
) -> dict[str, Any]:
    if run is not None:
        run.begin()
        run.save_candidates(space)
    fabric.launch()
    with visible() as bar:
        if not args.weights and args.pretrain_epochs:
            _pretrain(args, model, dataset, fabric, run, bar)
        found = search_sizes(
            model,
            dataset,
            budget,
            args,
            space=space,
            seed=args.seed,
            run=run,
            fabric=fabric,
            checkpoint_seconds=args.checkpoint_seconds,
            progress=bar,
        )
    shape = found.shape
    if run is not None:
        run.save_shape(shape)
    last = found.history[-1]
    return {
        "macs": macs(space, shape),
        "params": params(space, shape),
        "target": budget.target(),
        "derived_by": found.derived.how,
        "given_up": found.derived.given_up,
        "shape": json.loads(shape.to_json()),
        "residual": space.residual,
        "expected": last["expected"],
        "discrepancy": last["discrepancy"],
        "entropy": last["entropy"],
        "seconds": sum(row["seconds"] for row in found.history),
        "model": args.model,
        "data": args.data,
        "seed": args.seed,
    }


def _pretrain(
    args: Search, model: nn.Module, dataset: Dataset, fabric: Fabric, run: Run | None, bar: Bar
) -> None:
    """Train the network as it is, in a run folder inside the one of the search."""
    settings = replace(quick(args.data), epochs=args.pretrain_epochs, validation=args.validation)
    job = {field.name: getattr(args, field.name) for field in fields(Job)}
    config = Train(**{**job, **vars(settings), "out": None})

    def work(inner: Run | None) -> dict[str, Any]:
        trained = train_model(
            model,
            dataset,
            settings,
            seed=args.seed,
            run=inner,
            fabric=fabric,
            checkpoint_seconds=args.checkpoint_seconds,
            progress=bar,
        )
        if inner is not None:
            inner.save_recipe(recipe_of(config, dataset))
        return {"accuracy": trained.accuracy, "top5": trained.top5, "n": trained.n}

    _, folder = Stages(run, fabric).once("pretrained", config, work)
    if folder is not None:
        load_weights(model, folder / "model.safetensors")
