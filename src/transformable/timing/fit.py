"""From measured times to surfaces, and from these to the time of a whole network."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
from scipy.optimize import nnls

from ..costing.latency import Floats, Surface, hats, whole_blocks

__all__ = ["fit_surface", "fit_total"]

KNOTS = 8
BLOCKS = (1, 8, 16)  # channels that one instruction of a processor computes
ROUNDS = 3
FAR = 4.0  # times the usual error
SMOOTHING = 0.02  # weight of a change of slope, relative to that of the error of a sample


def fit_surface(samples: Sequence[tuple[int, int, float]], *, linear: tuple[bool, bool]) -> Surface:
    """The surface that has the smallest relative errors at samples (inputs, outputs, time); of
    samples with the same widths, the median counts.

    Between and beyond the samples it is as straight as possible; it has one slope in a direction
    that is ``linear``. If none is, it may also rise in steps of a block of channels, whichever
    block fits best.

    >>> samples = [(i, o, 5.0 + i * o) for i in (4, 8) for o in (4, 8, 16)]
    >>> fit_surface(samples, linear=(False, False)).at([8], [16]).round(2).tolist()
    [[133.0]]
    >>> steps = [(16, o, 5.0 + -(-o // 16)) for o in range(3, 100, 7)]
    >>> fit_surface(steps, linear=(False, False)).block
    16
    """
    blocks = (1,) if any(linear) else BLOCKS
    return min((_fitted(samples, linear, block) for block in blocks), key=itemgetter(0))[1]


def _fitted(
    samples: Sequence[tuple[int, int, float]], linear: tuple[bool, bool], block: int
) -> tuple[float, Surface]:
    """The surface with a block, and the mean size of its relative errors."""
    places: dict[tuple[float, float], list[float]] = defaultdict(list)
    for *widths, nanoseconds in samples:
        inputs, outputs = whole_blocks(widths, block)
        places[inputs, outputs].append(nanoseconds)
    ins, outs = np.array(list(places), dtype=np.float64).T
    times = np.array([statistics.median(each) for each in places.values()])
    counts = np.array([len(each) for each in places.values()]) ** 0.5
    knots = [_knots(widths, one) for widths, one in zip((ins, outs), linear, strict=True)]
    rows, columns = hats(knots[0], ins), hats(knots[1], outs)
    design = np.einsum("ni,nj->nij", rows, columns).reshape(len(times), -1)
    size = tuple(map(len, knots))
    bends = _bends(knots[0], knots[1])
    level = float(np.median(times))
    weight = SMOOTHING * len(samples) ** 0.5
    matrix = np.concatenate([design * (counts / times)[:, None], weight * bends / level])
    values = np.concatenate([counts, np.zeros(len(bends))])
    found = np.linalg.lstsq(matrix, values, rcond=None)[0].reshape(size)
    surface = Surface(knots[0], knots[1], np.maximum(found, 0.0), block)
    errors = [float(surface.at([i], [o])[0, 0]) / time - 1 for i, o, time in samples]
    return float(np.mean(np.abs(errors))), surface


def _knots(widths: Floats, linear: bool) -> tuple[int, ...]:
    """The widths at which a surface has values: those of the samples, if they are not too many."""
    found = np.unique(widths)
    if linear and len(found) > 2:
        found = found[[0, -1]]
    if len(found) > KNOTS:
        found = np.unique(np.quantile(found, np.linspace(0, 1, KNOTS), method="nearest"))
    return tuple(int(width) for width in found)


def _bends(ins: Sequence[int], outs: Sequence[int]) -> Floats:
    """The changes of slope along both directions, as a matrix on the values of a surface."""

    def along(knots: Sequence[int]) -> Floats:
        bends = np.zeros((max(0, len(knots) - 2), len(knots)))
        for i in range(len(bends)):
            low, middle, high = knots[i : i + 3]
            share = (middle - low) / (high - low)
            bends[i, i : i + 3] = share - 1, 1, -share
        return bends

    one, two = along(ins), along(outs)
    parts = [np.kron(one, np.eye(len(outs))), np.kron(np.eye(len(ins)), two)]
    twist = np.zeros((len(ins) - 1, len(ins))), np.zeros((len(outs) - 1, len(outs)))
    for matrix in twist:
        for i in range(len(matrix)):
            matrix[i, i : i + 2] = -1, 1
    # values that nothing else decides follow their neighbours
    return np.concatenate([*parts, 0.01 * np.kron(*twist)])


def fit_total(features: Floats, totals: Floats, weights: Floats) -> Floats:
    """The factors of the features, none below 0, with the smallest relative errors of the totals;
    outliers, which were disturbed, do not count.

    >>> features = np.array([[1.0, n] for n in range(1, 9)])
    >>> totals = features @ [2.0, 3.0]
    >>> totals[5] *= 1.5
    >>> fit_total(features, totals, np.ones(8)).round(6).tolist()
    [2.0, 3.0]
    """
    kept = np.ones(len(totals), dtype=bool)
    for _ in range(ROUNDS):
        scales = (weights / totals)[kept, None]
        factors: Floats = nnls(scales * features[kept], weights[kept])[0]
        errors = abs(features @ factors / totals - 1)
        kept = errors <= FAR * max(float(np.median(errors)), 1e-9)
    return factors
