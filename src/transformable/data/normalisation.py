"""The mean and standard deviation that images are normalised with."""

import math
from collections.abc import Sequence

__all__ = ["Values", "per_channel"]

Values = float | Sequence[float]
"""One number for all channels, or one per channel."""


def per_channel(name: str, values: Values, channels: int) -> tuple[float, ...]:
    """``values`` as one finite number per channel; those of ``std`` must be above 0.

    >>> per_channel("std", 0.5, channels=3)
    (0.5, 0.5, 0.5)
    """
    numbers = tuple(values) if isinstance(values, Sequence) else (values,)
    if len(numbers) not in (1, channels):
        expected = "one" if channels == 1 else f"one for all channels or {channels}"
        raise ValueError(
            f"{name} {numbers} has {len(numbers)} numbers, but the images have {channels} "
            f"channel{'s' * (channels > 1)}; give {expected}"
        )
    for value in numbers:
        if not math.isfinite(value) or (name == "std" and value <= 0):
            limits = "above 0" if name == "std" else "that are finite"
            raise ValueError(f"{name} {value:g} is impossible; give numbers {limits}")
    return tuple(map(float, numbers)) * (channels // len(numbers))
