"""Latencies that nobody has measured: times by a law, so that what follows from them is known."""

import hashlib

import numpy as np
from torch import nn

from transformable.costing.latency import Conditions, Latency, Surface, is_sum
from transformable.timing.parts import Part, find_parts, timed_part
from transformable.tracing.space import Space

HERE = Conditions(machine="nowhere")


def made_up_latency(model: nn.Module, space: Space) -> Latency:
    """Each kind of part takes a time of its own, that rises with its widths in uneven steps."""
    parts = [
        timed_part(
            part,
            _surface(part, space, "equal"),
            _surface(part, space, "un") if part.is_add else None,
            _surface(part, space, "odd") if part.is_matrix and not _sums(part, space) else None,
        )
        for part in find_parts(model, space)
    ]
    latency = Latency(conditions=HERE, full=0.0, constant=1234.5, parts=parts)
    full = latency.cost(space, space.full)
    return Latency(conditions=HERE, full=full, constant=1234.5, parts=parts)


def _sums(part: Part, space: Space) -> bool:
    return any(i is not None and is_sum(space.layouts[i]) for i in (part.ins, part.outs))


def _surface(part: Part, space: Space, which: str) -> Surface:
    seed = int(hashlib.sha256(f"{part.kind} {which}".encode()).hexdigest()[:8], 16)
    generator = np.random.default_rng(seed)
    knots: list[tuple[int, ...]] = []
    for index in (part.ins, part.outs):
        if index is None:
            knots.append((0,))
        elif is_sum(space.layouts[index]):
            knots.append((0, space.layouts[index].size))
        else:
            size = space.layouts[index].size
            knots.append(tuple(sorted({1, max(1, size // 3), max(1, 2 * size // 3), size})))
    steps = generator.uniform(500, 5000, [len(each) for each in knots])
    return Surface(knots[0], knots[1], steps.cumsum(0).cumsum(1))
