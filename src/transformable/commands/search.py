"""What ``tas search`` does."""

import json
import math
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from .. import data
from ..arguments import Job, Search, Train
from ..budget import Budget
from ..cost import macs, params
from ..data import Dataset
from ..devices import make_fabric
from ..factory import network
from ..interrupt import Interrupted
from ..presets import quick
from ..progress import Bar
from ..rehearsal import Rehearsal, rehearse
from ..runs import Run, default_folder
from ..searching import search as search_sizes
from ..space import Space
from ..training import train as train_model
from ..weights import load_weights
from . import Outcome

__all__ = ["search"]


def search(args: Search) -> Outcome | None:
    """Search in a run folder; None in all processes but the first."""
    fabric = make_fabric(args.device, devices=args.devices, precision=args.precision)
    dataset = data.load(
        args.data,
        args.data_dir,
        validation=args.validation,
        seed=args.seed,
        download=args.download,
        workers=args.workers,
    )
    torch.manual_seed(args.seed)
    model = network(args.model, dataset.info)
    space = Space.trace(
        model,
        dataset.info.input_shape,
        ratios=args.ratios,
        divisor=args.divisor,
        depth_step=args.depth_step,
        residual=args.residual,
        search=args.search,
    )
    budget = Budget.of(args.budget, space, metric=args.metric, tolerance=args.tolerance)
    folder = Path(args.out) if args.out else default_folder(args, "search-")
    if args.weights:
        load_weights(model, _weights_file(args.weights))
    title = f"{args.model} on {args.data}"
    if args.dry_run:
        seen = rehearse(model, dataset, budget, args, space=space, fabric=fabric)
        return Outcome(title=f"{title}: a search", result=_plan(args, space, budget, dataset, seen))
    if os.environ.get("LOCAL_RANK", "0") != "0":
        _search(args, model, dataset, space, budget, fabric, None)
        return None
    folder = Path(args.out) if args.out else default_folder(args, "search-")
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            found = _search(args, model, dataset, space, budget, fabric, run)
            result = {**found, "out": str(folder)}
            run.save_result(result)
    return Outcome(title=title, result=result)


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
    fabric.launch()
    with Bar() as bar:
        try:
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
        except Interrupted as stop:
            raise Interrupted(f"{stop}; run the same command again to go on") from None
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
        "depths": dict(shape.depths),
        "shape": json.loads(shape.to_json()),
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
    if run is None:
        train_model(model, dataset, settings, seed=args.seed, fabric=fabric)
        return
    with Run.open(run.folder / "pretrained", config) as inner:
        if inner.result() is not None:
            load_weights(model, inner.folder / "model.safetensors")
            return
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
        inner.save_result({"accuracy": trained.accuracy, "top5": trained.top5, "n": trained.n})


def _weights_file(given: str) -> Path:
    path = Path(given)
    return path / "model.safetensors" if path.is_dir() else path


def _plan(
    args: Search, space: Space, budget: Budget, dataset: Dataset, seen: Rehearsal
) -> dict[str, Any]:
    cost = {
        name: budget.cost(space, s)
        for name, s in (("smallest", space.smallest), ("full", space.full))
    }
    seconds = seen.steps * seen.seconds_per_step
    if not args.weights:
        # a plain step takes about half as long
        plain = dataset.train.steps(args.batch_size) * args.pretrain_epochs
        seconds += plain * seen.seconds_per_step / 2
    return {
        "shapes": f"10^{math.log10(space.count):.1f}",
        "layers": len(space.widths),
        "stages": len(space.depths),
        **{f"{name}_{budget.metric}": value for name, value in cost.items()},
        "target": budget.target(),
        "steps": seen.steps,
        "seconds_per_step": seen.seconds_per_step,
        "seconds": seconds,
        "memory_bytes": seen.memory,
    }
