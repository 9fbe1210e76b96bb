"""Time the networks of shapes on this machine, alternately with the unpruned one."""

from collections.abc import Callable

import torch
from torch import nn

from ..costing.latency import Latency
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from .runtimes import whole_call
from .stopwatch import time_calls, using_threads

__all__ = ["shape_timer"]

ROUNDS = 51


def shape_timer(
    model: nn.Module, space: Space, latency: Latency, device: torch.device | None = None
) -> Callable[[Shape], float]:
    """A function that measures the network of a shape, once for each shape.

    The nanoseconds are scaled so that the unpruned network takes ``latency.full``: a machine that
    is slower now than when the table was measured is slower for both.
    """
    conditions = latency.conditions
    known: dict[str, float] = {}

    def measure(shape: Shape) -> float:
        key = shape.to_json()
        if key not in known:
            x = torch.randn(conditions.batch, *space.input_shape, device=device)
            with using_threads(conditions.threads):
                calls = {
                    name: whole_call(conditions.runtime, network, x)
                    for name, network in (("full", model), ("small", slim(model, space, shape)))
                }
                timed = time_calls(calls, rounds=ROUNDS)
            known[key] = latency.full * timed["small"].low_ms / timed["full"].low_ms
        return known[key]

    return measure
