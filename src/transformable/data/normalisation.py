"""The mean and standard deviation that images are normalised with: checks and units."""

import math
from collections.abc import Sequence

__all__ = ["Values", "in_image_units", "per_channel"]

Values = float | Sequence[float]
"""One number for all channels, or one per channel."""


def in_image_units(
    mean: Values | None, std: Values | None, *, channels: int, pixels: bool
) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """``load``'s mean and std, per channel in the units of the images.

    For pixels (uint8) they are given as fractions of the pixel range and become 0 to 255; for float
    images they stay as they are.

    >>> in_image_units(0.5, (0.2, 0.4), channels=2, pixels=True)
    ((127.5, 127.5), (51.0, 102.0))
    >>> in_image_units(None, None, channels=2, pixels=True)
    (None, None)
    """
    if mean is None and std is None:
        return None, None
    if mean is None or std is None:
        raise ValueError(f"{'mean' if mean is None else 'std'} is missing; give mean and std")
    given = {"mean": per_channel("mean", mean, channels), "std": per_channel("std", std, channels)}
    for name, values in given.items() if pixels else ():
        for value in values:
            if not 0 <= value <= 1:
                raise ValueError(
                    f"{name} {value:g} is not for pixels of 0 to 1; give it as a fraction of the "
                    "pixel range (for pixels of 0 to 255, divide it by 255)"
                )
    scale = 255 if pixels else 1
    scaled = [tuple(value * scale for value in values) for values in given.values()]
    return scaled[0], scaled[1]


def per_channel(name: str, values: Values, channels: int) -> tuple[float, ...]:
    """``values`` as one finite number per channel; those of ``std`` must be above 0."""
    numbers = tuple(values) if isinstance(values, Sequence) else (values,)
    if len(numbers) not in (1, channels):
        expected = "one" if channels == 1 else f"one for all channels or {channels}"
        raise ValueError(
            f"{name} {_text(numbers)} has {len(numbers)} numbers, but the images have {channels} "
            f"channel{'s' * (channels > 1)}; give {expected}"
        )
    for value in numbers:
        if not math.isfinite(value) or (name == "std" and value <= 0):
            limits = "above 0" if name == "std" else "that are finite"
            raise ValueError(f"{name} {value:g} is impossible; give numbers {limits}")
    return tuple(map(float, numbers)) * (channels // len(numbers))


def _text(numbers: Sequence[float]) -> str:
    return f"({', '.join(f'{number:g}' for number in numbers)})"
