"""Whether a search has preferred some sizes to others at all."""

__all__ = ["undecided"]

DISCREPANCY = 0.05
"""Below this the largest probabilities are hardly larger than the second largest."""


def undecided(
    discrepancy: float | None,
    derived: float | None,
    expected: float | None,
    band: tuple[float, float] | None,
) -> str:
    """A sentence about a search that ended without a preference; or "".

    ``derived`` is the cost of the most probable sizes, ``expected`` that of a drawn shape.

    >>> undecided(0.0008, 9e6, 8e6, (4.8e6, 5.3e6))[:60]
    'The search was undecided: on average the most probable size '
    >>> undecided(0.6, 5e6, 5.1e6, (4.8e6, 5.3e6)), undecided(None, None, None, None)
    ('', '')
    """
    reasons = []
    if discrepancy is not None and discrepancy < DISCREPANCY:
        reasons.append(
            f"on average the most probable size is only {discrepancy:.2g} more probable than the "
            "second"
        )
    costs = [cost for cost in (derived, expected) if cost is not None]
    if band and len(costs) == 2 and not any(band[0] <= cost <= band[1] for cost in costs):
        reasons.append(
            "at its end neither the most probable sizes nor the expected cost were inside the band"
        )
    if not reasons:
        return ""
    return (
        f"The search was undecided: {'; '.join(reasons)}. The shape is little more than one that "
        "meets the budget; search for more epochs, or with a larger arch_lr."
    )
