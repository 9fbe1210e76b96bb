"""Which multiples of channels are worthwhile on this machine."""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..costing.latency import Conditions
from ..resizing import resize
from ..tracing.reader import Layer
from ..tracing.space import Space
from .runtimes import whole_call
from .stopwatch import check_threads, time_calls, using_threads

__all__ = ["Divisor", "paying_divisor"]

DIVISORS = (16, 8, 4, 2)
LAYERS = 3  # how many kinds of layers are timed, those with the most work first
FREE = 1.03  # a layer that is rounded up may take so much longer
STEPS = 8


@dataclass(frozen=True, kw_only=True)
class Divisor:
    """The divisor that is worthwhile, and why."""

    divisor: int
    ratios: dict[int, float]
    """For each divisor that was tried, the time of layers whose widths are rounded up to it, as a
    multiple of that of the widths in between."""

    def __str__(self) -> str:
        tried = ", ".join(f"{d}: {ratio:.2f}" for d, ratio in self.ratios.items())
        why = f"time of a layer rounded up to a multiple, relative to one in between: {tried}"
        if self.divisor == 1:
            return f"1, since widths in between are faster ({why})"
        return f"{self.divisor}, since widths in between are not faster ({why})"


def paying_divisor(
    model: nn.Module, space: Space, conditions: Conditions, device: torch.device
) -> Divisor:
    """The largest divisor for which a layer that is rounded up to a multiple of it takes no longer
    than one in between: then the widths in between save nothing."""
    check_threads(conditions.threads)
    ratios: dict[int, float] = {}
    layers = _layers(space)
    for divisor in DIVISORS:
        found = [
            _ratio(model, layer, space.layouts[layer.outputs].size, divisor, conditions, device)
            for layer in layers
            if space.layouts[layer.outputs].size >= 2 * divisor
        ]
        if found:
            ratios[divisor] = sum(found) / len(found)
            if ratios[divisor] <= FREE:
                return Divisor(divisor=divisor, ratios=ratios)
    return Divisor(divisor=1, ratios=ratios)


def _layers(space: Space) -> list[Layer]:
    """The convolutions with the most work, one of each kind."""
    found: dict[tuple[object, ...], Layer] = {}
    for layer in space.layers:
        if layer.kind == "conv":
            sizes = (space.layouts[layer.inputs].size, space.layouts[layer.outputs].size)
            found.setdefault((layer.kernel, layer.size, *sizes), layer)

    def work(layer: Layer) -> int:
        ins, outs = (space.layouts[i].size for i in (layer.inputs, layer.outputs))
        return ins * outs * layer.area * layer.pixels

    return sorted(found.values(), key=work, reverse=True)[:LAYERS]


def _ratio(
    model: nn.Module,
    layer: Layer,
    size: int,
    divisor: int,
    conditions: Conditions,
    device: torch.device,
) -> float:
    """The time at multiples of the divisor, relative to the mean at widths just below them."""
    module = model.get_submodule(layer.name)
    stride = getattr(module, "stride", (1,) * len(layer.size))
    image = [n * s for n, s in zip(layer.size, stride, strict=True)]
    multiples = [w for w in range(divisor, size + 1, divisor) if w > size * 0.3][-STEPS:]
    below = [w - divisor // 2 for w in multiples]
    with using_threads(conditions.threads):
        calls = {}
        for width in {*multiples, *below}:
            own = _with_outputs(module, layer, width)
            x = torch.randn(conditions.batch, own.in_channels, *image, device=device)
            calls[str(width)] = whole_call(conditions.runtime, own, x)
        timed = {int(name): t.low_ms for name, t in time_calls(calls).items()}
    return sum(timed[w] for w in multiples) / sum(timed[w] for w in below)


def _with_outputs(module: nn.Module, layer: Layer, width: int) -> Any:
    own: Any = copy.deepcopy(module)
    resize(own, layer.kind, list(range(width)), list(range(own.in_channels)))
    return own
