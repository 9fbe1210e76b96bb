"""The times of a network's parts, from networks of many shapes, timed on this machine."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import nn

from ..costing.latency import ALIGNED, Conditions, Floats, Latency, Surface, TimedPart, is_sum
from ..tracing.space import Space
from .fit import fit_surface, fit_total
from .parts import Part, find_parts, timed_part
from .runtimes import check_installed, whole_call
from .samples import RANDOM, Sample, choose_shapes, steadied, take_sample
from .stopwatch import check_threads, time_calls, using_threads

__all__ = ["Measured", "measure_latency"]

LEVELS, FEW_LEVELS = 7, 5
SLOW = 20.0  # milliseconds; a slower network is measured at fewer levels
NOISY = 0.15
RANDOM_WEIGHT = 4.0
Case = Literal["usual", "unequal", "unaligned"]
NOTHING = Surface((0,), (0,), np.zeros((1, 1)))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The times of the parts of a network, and how far they can be trusted."""

    latency: Latency
    noise: float
    """The distance of the quartiles of repeated calls of one network, as a share of the median."""
    error: float
    """The 90 % quantile of the relative errors of the sum of times, over the networks of random
    shape that the times were fitted to."""

    @property
    def warning(self) -> str:
        """Warnings about the times, if there are any."""
        if self.noise > NOISY:
            return (
                f"this machine is noisy: the time of one network varies by {self.noise:.0%} from "
                "call to call; stop what else runs on it before you trust a latency"
            )
        if self.error > NOISY:
            return (
                f"the times of this network's parts do not add up well: one network in ten is more "
                f"than {self.error:.0%} off; what is derived is measured and corrected"
            )
        return ""


def measure_latency(
    model: nn.Module,
    space: Space,
    conditions: Conditions,
    *,
    device: torch.device | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Measured:
    """Measure a network at many widths, and fit the times of its parts to that."""
    check_installed(conditions.runtime)
    check_threads(conditions.threads)
    x = torch.randn(conditions.batch, *space.input_shape, device=device or torch.device("cpu"))
    with using_threads(conditions.threads):
        full = whole_call(conditions.runtime, model, x)
        first = time_calls({"full": full})["full"]
        shapes = choose_shapes(space, FEW_LEVELS if first.median_ms > SLOW else LEVELS)
        samples = []
        for number, shape in enumerate(shapes):
            progress(number, len(shapes))
            samples.append(take_sample(model, space, shape, conditions.runtime, x, full))
        last = time_calls({"full": full})["full"]
    progress(len(shapes), len(shapes))
    samples = steadied(samples)
    latency = _fit(find_parts(model, space), samples, space, conditions)
    errors = [abs(latency.cost(space, s.shape) / s.total - 1) for s in samples[-RANDOM:]]
    return Measured(
        latency=latency,
        noise=max(first.spread, last.spread),
        error=statistics.quantiles(errors, n=10, method="inclusive")[-1],
    )


def _fit(
    parts: Sequence[Part], samples: Sequence[Sample], space: Space, conditions: Conditions
) -> Latency:
    """Times by kind of part, corrected so that they add up to the times of whole networks."""
    surfaces = _surfaces(parts, samples, space, in_blocks=conditions.runtime == "onnxruntime")
    timed = []
    for part in parts:
        usual, unequal, unaligned = (surfaces.get((part.kind, case)) for case in get_args(Case))
        surface = usual or unequal or unaligned or NOTHING
        differing = (unequal or surface) if part.is_add else None
        timed.append(timed_part(part, surface, differing, unaligned))
    return _corrected(parts, timed, samples, space, conditions)


def _surfaces(
    parts: Sequence[Part], samples: Sequence[Sample], space: Space, *, in_blocks: bool
) -> dict[tuple[str, Case], Surface]:
    """The surface of each kind of part, and others for adds whose operands differ and, if layers
    are computed in blocks of channels, for layers whose inputs are no multiple of `ALIGNED`."""
    found: dict[tuple[str, Case], list[tuple[int, int, float]]] = defaultdict(list)
    linear: dict[str, tuple[bool, bool]] = defaultdict(lambda: (False, False))
    for part in parts:
        ins, outs = (i is not None and is_sum(space.layouts[i]) for i in (part.ins, part.outs))
        before = linear[part.kind]
        linear[part.kind] = before[0] or ins, before[1] or outs
    for part in parts:
        # the time of a sum of widths has to be linear, so that it cannot depend on its divisors
        blocked = in_blocks and part.is_matrix and not any(linear[part.kind])
        for sample in samples:
            if part.name in sample.nodes:
                at = _place(part, sample.masks)
                row = at.ins, at.outs, max(1.0, sample.nodes[part.name])
                case: Case = "unequal" if at.unequal else "usual"
                if blocked and at.read % ALIGNED:
                    case = "unaligned"
                found[part.kind, case].append(row)
    return {key: fit_surface(rows, linear=linear[key[0]]) for key, rows in found.items()}


class _Place(NamedTuple):
    """The widths of a part in a network."""

    ins: int
    outs: int
    unequal: bool
    read: int
    """Channels that it reads; a layer that treats each by itself has only outputs."""


def _place(part: Part, masks: Sequence[int]) -> _Place:
    ins, outs = (0 if i is None else masks[i] for i in (part.ins, part.outs))
    read = outs if part.ins is None else ins
    unequal = part.is_add and ins != outs
    return _Place(ins.bit_count(), outs.bit_count(), unequal, read.bit_count())


class _Columns:
    """What the time of a whole network is a sum of: a constant; the times of layers and of other
    parts; a time for each call of a part; and for each operation that the runtime does not show by
    itself, because it fuses it, a time for each call and for each element."""

    CONSTANT, LAYERS, OTHERS, CALLS = range(4)

    def __init__(self, parts: Sequence[Part], samples: Sequence[Sample]) -> None:
        shown = {name for sample in samples for name in sample.nodes}
        self.shown = {part.kind for part in parts if part.name in shown}
        hidden = [part for part in parts if part.kind not in self.shown]
        keys = dict.fromkeys(
            (part.operation, unequal) for part in hidden for unequal in (False, part.is_add)
        )
        self.hidden = {key: 4 + 2 * i for i, key in enumerate(keys)}
        self.count = 4 + 2 * len(keys)

    def row(
        self, parts: Sequence[Part], timed: Sequence[TimedPart], sample: Sample, space: Space
    ) -> Floats:
        """The values of these in a network."""
        row = np.zeros(self.count)
        row[self.CONSTANT] = 1.0
        for part, own in zip(parts, timed, strict=True):
            if not space.keeps(own, sample.shape):
                continue
            at = _place(part, sample.masks)
            if part.kind in self.shown:
                row[self.LAYERS if part.is_matrix else self.OTHERS] += own.time(sample.masks)
                row[self.CALLS] += 1
            else:
                first = self.hidden[part.operation, at.unequal]
                row[first : first + 2] += 1.0, part.pixels * _width(part, at.ins, at.outs)
        return row


def _width(part: Part, ins: float, outs: float) -> float:
    """The width that a hidden part's time grows with: for an add the mean of both operands."""
    return outs if part.ins is None else (ins + outs) / 2


def _corrected(
    parts: Sequence[Part],
    timed: Sequence[TimedPart],
    samples: Sequence[Sample],
    space: Space,
    conditions: Conditions,
) -> Latency:
    """The times with factors by which they add up to those of whole networks."""
    columns = _Columns(parts, samples)
    features = np.array([columns.row(parts, timed, sample, space) for sample in samples])
    factors = np.zeros(columns.count)
    used = features.any(axis=0)
    totals = np.array([sample.total for sample in samples])
    # what a search finds is more like the networks of random shape
    weights = np.ones(len(samples))
    weights[-RANDOM:] = RANDOM_WEIGHT
    factors[used] = fit_total(features[:, used], totals, weights)
    return Latency(
        conditions=conditions,
        full=samples[0].full,
        constant=float(factors[columns.CONSTANT]),
        parts=[
            _with_factors(part, own, columns, factors)
            for part, own in zip(parts, timed, strict=True)
        ],
    )


def _with_factors(part: Part, own: TimedPart, columns: _Columns, factors: Floats) -> TimedPart:
    def factored(surface: Surface | None, unequal: bool) -> Surface:
        if part.kind in columns.shown and surface is not None:
            factor = factors[columns.LAYERS if part.is_matrix else columns.OTHERS]
            return replace(surface, times=factor * surface.times + factors[columns.CALLS])
        first = columns.hidden[part.operation, unequal]
        call, element = factors[first : first + 2]
        ins = (0,) if part.ins is None else (0, 1)
        times = [[call + element * part.pixels * _width(part, i, o) for o in (0, 1)] for i in ins]
        return Surface(ins, (0, 1), np.array(times))

    unequal = factored(own.unequal, True) if part.is_add else None
    unaligned = None if own.unaligned is None else factored(own.unaligned, False)
    surface = factored(own.surface, False)
    return replace(own, surface=surface, unequal=unequal, unaligned=unaligned)
