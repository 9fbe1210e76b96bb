"""The numbers of a finished job: the pruned network beside the one that it came from."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..costing.budget import Budget
from ..costing.cost import layer_costs, macs, params, with_norms
from ..networks.speed import describe_machine, describe_speedup
from ..shape import Shape
from ..tracing.space import Space

__all__ = ["layer_table", "result_numbers"]


def result_numbers(
    space: Space,
    shape: Shape,
    budget: Budget,
    *,
    tested: Mapping[str, Mapping[str, Any]],
    sizes: Mapping[str, int],
    speed: list[dict[str, Any]],
) -> dict[str, Any]:
    """What result.json says of the networks "before" and "after", by these two names: their scores
    in ``tested``, the bytes of their weights in ``sizes``, and their timings."""
    sides = {
        name: {
            "accuracy": tested[name]["accuracy"],
            "top5": tested[name]["top5"],
            "macs": macs(space, counted),
            "params": params(space, counted),
            "bytes": sizes[name],
            "latency_ms": speed[0][name]["median_ms"],
        }
        for name, counted in (("before", space.full), ("after", shape))
    }
    return {
        **sides,
        "target": budget.target(),
        "shape": shape.to_dict(),
        "residual": space.residual,
        "n": tested["after"]["n"],
        "speed": speed,
        "faster": describe_speedup(speed),
        "layers": layer_table(space, shape),
        "environment": describe_machine(),
    }


def layer_table(space: Space, shape: Shape) -> list[dict[str, Any]]:
    """Every layer before and after, in order of execution; what was dropped is 0 wide after.

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
    return [
        {
            "name": name,
            **dict(zip(("stage", "block"), _place(space, name), strict=True)),
            "kind": (before.get(name) or after[name]).kind,
            "kernel": list((before.get(name) or after[name]).kernel),
            "size": list((before.get(name) or after[name]).size),
            "full": before[name].outputs if name in before else 0,
            "kept": after[name].outputs if name in after else 0,
            **{
                f"{what}_{when}": asdict(rows[name])[what] if name in rows else 0
                for what in ("macs", "params")
                for when, rows in (("before", before), ("after", after))
            },
        }
        for name in names
    ]


def _place(space: Space, name: str) -> tuple[str | None, int | None]:
    """The stage and the number of the block that a layer is in."""
    for stage in space.depths:
        for number, block in enumerate(space.stages[stage].blocks):
            if name.startswith(f"{block}."):
                return stage, number
    return None, None
