"""The numbers of a finished job: the pruned network compared with the unpruned one."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from ..atomic_files import weights_as_bytes
from ..costing.cost import LayerCost, layer_costs, macs, params, with_norms
from ..costing.latency import Latency
from ..methods import MethodResult
from ..networks.speed import describe_speedup
from ..shape import Shape
from ..timing.machine import describe_machine
from ..tracing.fixed_layers import describe_fixed
from ..tracing.space import Space
from .job import PruningJob

__all__ = ["job_result", "layer_table"]


def job_result(
    job: PruningJob,
    found: MethodResult,
    networks: Mapping[str, nn.Module],
    scores: Mapping[str, Mapping[str, Any]],
    search_seconds: float,
    speed: list[dict[str, Any]],
    timed: dict[str, Any] | None,
) -> dict[str, Any]:
    """The content of result.json; ``networks`` and ``scores`` are by "before" and "after".

    ``timed`` are the measurements under the conditions of a budget or limit that is a latency,
    unless its times are of another machine.
    """
    space, shape, measured = job.space, found.shape, found.restore_budget is not None
    sides = {
        name: {
            **{score: scores[name][score] for score in job.dataset.task.scores},
            "macs": macs(space, counted),
            "params": params(space, counted),
            "bytes": len(weights_as_bytes(networks[name])),
            "latency_ms": speed[0][name]["median_ms"],
        }
        for name, counted in (("before", space.full), ("after", shape))
    }
    if measured:
        count = sum(parameter.numel() for parameter in networks["after"].parameters())
        sides["after"] |= {"macs": scores["after"]["cost"], "params": count}
    latency = job.budget.timed
    if latency is not None:
        # the budget holds under its conditions, for the small network relative to the unpruned
        predicted = latency.cost(space, shape) / 1e6
        own = (latency.full / 1e6, predicted if timed is None else timed["ms"])
        for side, milliseconds in zip(("before", "after"), own, strict=True):
            sides[side] |= {"latency": milliseconds, "latency_ms": milliseconds}
    return {
        **sides,
        "target": job.budget.target(),
        **({} if timed is None else {"timed": timed}),
        "shape": shape.to_dict(),
        "fixed": describe_fixed(space.fixed),
        "residual": space.residual,
        "n": scores["after"]["n"],
        "num_classes": job.dataset.info.num_classes,
        "speed": speed,
        "faster": describe_speedup(speed),
        "layers": layer_table(space, shape, latency),
        "environment": describe_machine(),
        "method": job.method_name,
        "notes": found.notes,
        "measured": measured,
        "folders": dict(job.folders),
        "transfer": job.distilling.transfer,
        "trained": job.trained,
        "seconds": {
            "teacher": scores["before"]["seconds"],
            "search": search_seconds,
            "student": scores["after"]["seconds"],
        },
        "passes": scores["after"]["passes"],
        "command": job.command,
        "teacher": job.source.get("teacher"),
        "model": job.source["model"],
        "data": job.dataset.info.name,
        "seed": job.source["seed"],
    }


def layer_table(space: Space, shape: Shape, latency: Latency | None = None) -> list[dict[str, Any]]:
    """Every layer before and after, in order of execution; a dropped one has width 0 after. With a
    ``latency`` each has its microseconds too, those of what follows it up to the next layer in it.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> rows = layer_table(space, space.full.replace(depths={**space.full.depths, "stages.2": 2}))
    >>> rows[-2]["name"], rows[-2]["block"], rows[-2]["full"], rows[-2]["kept"]
    ('stages.2.2.conv2', 2, 64, 0)
    """
    before, after = (
        {row.name: row for row in with_norms(layer_costs(space, of))} for of in (space.full, shape)
    )
    names = list(before)
    for name in after:
        if name not in before:  # a projection into a shortcut: it stands where its block ends
            place = _place(space, name)
            same = [i for i, other in enumerate(names) if _place(space, other) == place]
            names.insert(max(same, default=len(names) - 1) + 1, name)
    rows = [_layer_row(space, name, before.get(name), after.get(name)) for name in names]
    if latency is not None:
        for key, of in (("us_before", space.full), ("us_after", shape)):
            times = latency.by_layer(space, of)
            for row in rows:
                row[key] = times.get(row["name"], 0.0) / 1e3
    return rows


def _layer_row(
    space: Space, name: str, before: LayerCost | None, after: LayerCost | None
) -> dict[str, Any]:
    stage, block = _place(space, name)
    layer = before or after
    assert layer is not None
    return {
        "name": name,
        "stage": stage,
        "block": block,
        "kind": layer.kind,
        "kernel": list(layer.kernel),
        "size": list(layer.size),
        "full": before.outputs if before else 0,
        "kept": after.outputs if after else 0,
        "macs_before": before.macs if before else 0,
        "macs_after": after.macs if after else 0,
        "params_before": before.params if before else 0,
        "params_after": after.params if after else 0,
    }


def _place(space: Space, name: str) -> tuple[str | None, int | None]:
    """The stage and the number of the block that a layer is in."""
    for stage in space.depths:
        for number, block in enumerate(space.stages[stage].blocks):
            if name.startswith(f"{block}."):
                return stage, number
    return None, None
