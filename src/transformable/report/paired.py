"""Differences between two methods, seed by seed."""

from collections.abc import Mapping
from math import sqrt
from statistics import fmean, stdev
from typing import Any

__all__ = ["Difference", "paired_difference"]

Difference = dict[str, Any]
"""``points`` of accuracy, the mean over the ``n`` common seeds; its ``standard_error``, None if n
is 1; ``clear``: whether the mean is beyond two standard errors."""

CLEAR = 2.0  # standard errors


def paired_difference(
    accuracies: Mapping[int, float], others: Mapping[int, float]
) -> Difference | None:
    """The accuracy of a method minus that of another one, by seed; None without a common seed.

    >>> paired_difference({0: 0.80, 1: 0.82, 2: 0.5}, {0: 0.79, 1: 0.79})
    {'points': 2.0, 'standard_error': 1.0, 'n': 2, 'clear': False}
    """
    # without the noise of floats, by which equal differences would differ
    found = [round(100 * (a - others[seed]), 9) for seed, a in accuracies.items() if seed in others]
    if not found:
        return None
    mean = fmean(found)
    error = stdev(found) / sqrt(len(found)) if len(found) > 1 else None
    clear = error is not None and abs(mean) > CLEAR * error
    return {
        "points": mean,
        "standard_error": None if error is None else round(error, 9),
        "n": len(found),
        "clear": clear,
    }
