"""What ``tas search`` does."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Group
from torch import nn

from ..costing.budget import Budget, in_units
from ..costing.cost import macs, params
from ..data import Dataset
from ..networks.weights import load_weights
from ..presets import quick
from ..report.formatting import amount, band_text, duration
from ..report.search_remark import search_remark
from ..runs.run_folder import Run, check_folder
from ..searching.derive import check_possible
from ..searching.dry_run import search_phases
from ..searching.search import Searched, images_of
from ..searching.search import search as search_sizes
from ..settings import Metric, Training, plain_values
from ..shape import Shape
from ..tracing.space import Space
from ..training.dry_run import training_phases
from ..training.probe import Phase, probe
from ..training.processes import share_state
from ..training.session import Session
from ..training.train import check_steps, preserve_random_state
from ..training.train import train as train_network
from .budgets import BudgetMaker, trace_space
from .given_weights import load_trained, note_other_images
from .jobs import (
    blueprint_of,
    load_data_and_model,
    make_session,
    run_once,
    started,
)
from .options import Search
from .outcome import Outcome, parts_rows, verdicts

__all__ = ["search"]


def search(options: Search, command: str) -> Outcome | None:
    """Search in a run folder; None in all processes but the first."""
    session = make_session(options)
    prefix = f"search-{options.budget}-"
    if options.dry_run:
        check_folder(options.folder(prefix))
        return _dry_run(options, session)
    work = partial(_search, options, session)
    result = run_once(options, session, prefix, work)
    return None if result is None else SearchOutcome.of(options, result)


def _search(options: Search, session: Session, _: Path, run: Run | None) -> dict[str, Any]:
    dataset, model, space, budget = _prepare(options, session)
    teacher = model if options.weights else None
    with started(options, session, run, dataset, teacher=teacher) as session:
        if options.pretrains():
            _pretrain(options, model, dataset, session)
        found = search_sizes(model, dataset, budget, options, session, space=space)
    return _result(options, space, budget, found)


def _prepare(options: Search, session: Session) -> tuple[Dataset, nn.Module, Space, Budget]:
    """What the search works with; bad input is refused."""
    dataset, model = load_data_and_model(options)
    space = trace_space(options, model, dataset.info, session.fabric)
    if options.weights:
        load_trained(model, options, options.weights, options.new_head)
        note_other_images(options.weights, dataset)
    budget = BudgetMaker(options, model, space, session.fabric).make(options.budget)
    check_possible(space, budget)
    for part in images_of(dataset.train, options, options.seed):
        check_steps(part, options.batch_size, session.fabric.world_size)
    return dataset, model, space, budget


@dataclass(frozen=True, kw_only=True)
class SearchOutcome(Outcome):
    """The result of a search, shown with the sizes of each stage."""

    def show(self) -> Group:
        target = self.result["target"]
        metric, cost = target["metric"], self.result[target["metric"]]
        full = self.result["full"]
        rows = [
            (metric, f"{amount(metric, cost)} of {amount(metric, full)} ({cost / full:.1%})"),
            ("target", f"{amount(metric, target['value'])}, {band_text(target)}"),
            *(
                (promise, f"{verdict}, {amount(of, self.result[of])}")
                for promise, of, verdict in verdicts(target, self.result)
            ),
            ("derived by", _how_derived(self.result)),
            *stages(self.result.get("blocks", {}), Shape.from_dict(self.result["shape"])),
            *(
                (name, f"{self.result[name]:.4g}")
                for name in ("discrepancy", "entropy", "seconds")
                if self.result[name] is not None
            ),
            ("shape in", f"{self.result['out']}/shape.json"),
        ]
        ends = (self.result.get(name) for name in ("discrepancy", "derived", "expected"))
        discrepancy, derived, expected = ends
        argmax = self.result["derived_by"] == "argmax"  # inside, whatever the last epoch says
        band = None if argmax else (target["low"], target["high"])
        remark = search_remark(discrepancy, derived, expected, band)
        return self.table(rows, *([remark] if remark else []))


def stages(blocks: Mapping[str, Sequence[str]], shape: Shape) -> list[tuple[str, str]]:
    """For each stage how many of its blocks are kept and how wide their layers are.

    >>> shape = Shape(widths={"stem": 16, "a.0.conv": 8, "a.1.conv": 4}, depths={"a": 1})
    >>> stages({"a": ["a.0", "a.1"]}, shape)
    [('widths', 'stem: 16'), ('a', '1 of 2 blocks: 8')]
    """
    inside = [block for names in blocks.values() for block in names]
    outside = {
        n: w for n, w in shape.widths.items() if not any(n.startswith(f"{b}.") for b in inside)
    }
    rows = [("widths", ", ".join(f"{name}: {width}" for name, width in outside.items()))]
    for stage, names in blocks.items():
        depth = shape.depths[stage]
        widths = [
            " ".join(str(w) for n, w in shape.widths.items() if n.startswith(f"{block}."))
            for block in names[:depth]
        ]
        rows.append((stage, f"{depth} of {len(names)} blocks: {', '.join(widths)}"))
    return [row for row in rows if row[1]]


def _how_derived(result: dict[str, Any]) -> str:
    if result["derived_by"] == "argmax":
        return "argmax: the largest probabilities are inside the band"
    which = "the best on held-out images of some probable shapes"
    if result["derived_by"] == "constrained":
        which = "most probable shape in the band"
    return f"{which}, {result['given_up']:.3g} nats below the argmax"


def _result(options: Search, space: Space, budget: Budget, found: Searched) -> dict[str, Any]:
    """The content of result.json."""
    shape, last = found.shape, found.history[-1] if found.history else {}
    costs: dict[Metric, int] = {"macs": macs(space, shape), "params": params(space, shape)}
    costs |= {limit.metric: limit.cost(space, shape) for limit in (budget, *budget.at_most)}
    if found.derived.time is not None:
        costs["latency"] = found.derived.time
    return {
        **{metric: in_units(metric, cost) for metric, cost in costs.items()},
        "full": in_units(budget.metric, budget.cost(space, space.full)),
        "target": budget.target(),
        "derived_by": found.derived.how,
        "given_up": found.derived.given_up,
        "shape": shape.to_dict(),
        "blocks": {name: list(space.stages[name].blocks) for name in space.depths},
        "residual": space.residual,
        **{name: last.get(name) for name in ("derived", "expected", "discrepancy", "entropy")},
        "seconds": sum(row["seconds"] for row in found.history),
        "model": options.model,
        "data": options.data,
        "seed": options.seed,
    }


def _pretrain(options: Search, model: nn.Module, dataset: Dataset, session: Session) -> None:
    """Train the unpruned network, in a run folder inside the one of the search."""
    training = _pretraining(options)

    def work(session: Session) -> dict[str, Any]:
        if session.run is not None:
            session.run.start(blueprint_of(options, dataset.info).files())
        return train_network(model, dataset, training, session).scores()

    settings = {**options.source(), "train": plain_values(training)}
    _, folder = session.once("pretrained", settings, work)
    if folder is not None:
        if session.fabric.global_rank == 0:
            load_weights(model, folder / "model.safetensors")
        share_state(session.fabric, model)


def _pretraining(options: Search) -> Training:
    return replace(quick(options.data), epochs=options.pretrain_epochs)


@dataclass(frozen=True, kw_only=True)
class DryRunOutcome(Outcome):
    """What there is to search, and the time and memory that the search would take."""

    def show(self) -> Group:
        seen, target = self.result, self.result["target"]
        metric = target["metric"]
        rows = (
            ("shapes", f"{seen['shapes']} ({seen['layers']} layers, {seen['stages']} stages)"),
            (f"full {metric}", amount(metric, seen["full_" + metric])),
            (f"smallest {metric}", amount(metric, seen["smallest_" + metric])),
            (f"target {metric}", band_text(target)),
            *parts_rows(seen["parts"]),
            ("steps", f"{seen['steps']:,} of about {duration(seen['seconds_per_step'])}"),
            ("time", f"about {duration(seen['seconds'])} in all"),
            ("memory", f"about {seen['memory_bytes'] / 2**20:,.0f} MiB"),
        )
        return self.table(rows)


def _dry_run(options: Search, session: Session) -> DryRunOutcome:
    """Do a few steps of the search, and estimate the whole from them."""
    dataset, model, space, budget = _prepare(options, session)
    fabric = session.fabric
    parts: list[Callable[[], list[Phase]]] = []
    if options.pretrains():
        training = _pretraining(options)
        parts.append(lambda: training_phases("training", model, dataset, training, fabric))
    parts.append(
        lambda: search_phases(model, dataset, [budget], options, space=space, fabric=fabric)
    )
    with preserve_random_state(fabric):
        seen = [probe(part, dataset.train, fabric.device) for part in parts]
    seconds = {name: value for part in seen for name, value in part.seconds.items()}
    splits = images_of(dataset.train, options, options.seed)
    steps = options.epochs * min(split.steps(options.batch_size) for split in splits)
    result = {
        "shapes": f"10^{math.log10(space.count):.1f}",
        "layers": len(space.widths),
        "stages": len(space.depths),
        f"smallest_{budget.metric}": in_units(budget.metric, budget.cost(space, space.smallest)),
        f"full_{budget.metric}": in_units(budget.metric, budget.cost(space, space.full)),
        "target": budget.target(),
        "steps": steps,
        "seconds_per_step": seconds["searching"] / max(1, steps),
        "parts": seconds,
        "seconds": sum(seconds.values()),
        "memory_bytes": max(part.memory for part in seen),
    }
    return DryRunOutcome(title=f"{options.model} on {options.data}: a search", result=result)
