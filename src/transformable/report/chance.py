"""Whether an accuracy shows that anything was learnt at all."""

import math
from collections.abc import Mapping
from typing import Any

from .formatting import percent

__all__ = ["accuracy_remarks", "chance_remark"]


def chance_remark(accuracy: float | None, images: int, classes: int | None) -> str:
    """A sentence about an accuracy that guessing could reach, within two standard errors; or "".

    >>> chance_remark(4 / 24, 24, 5)
    '16.67% on 24 images is not clearly better than guessing one of 5 classes (20.00%).'
    >>> chance_remark(0.5, 24, 5), chance_remark(0.5, 24, None)
    ('', '')
    """
    if accuracy is None or not classes:
        return ""
    guessed = 1 / classes
    error = math.sqrt(guessed * (1 - guessed) / images)
    if accuracy > guessed + 2 * error:
        return ""
    counted = "1 image" if images == 1 else f"{images:,} images"
    return (
        f"{percent(accuracy)} on {counted} is not clearly better than guessing one of {classes} "
        f"classes ({percent(guessed)})."
    )


def accuracy_remarks(result: Mapping[str, Any]) -> list[str]:
    """Such sentences about both networks in the result of a pruning job, if they classify."""
    found = {
        network: chance_remark(result[side]["accuracy"], result["n"], result.get("num_classes"))
        for network, side in (("unpruned", "before"), ("small", "after"))
        if "accuracy" in result[side]
    }
    return [f"The {network} network: {words}" for network, words in found.items() if words]
