"""Whether a search preferred some sizes to others at all, and whether those meet the budget."""

__all__ = ["search_remark"]

DISCREPANCY = 0.05
"""Below this the largest probabilities are hardly larger than the second largest."""


def search_remark(
    discrepancy: float | None,
    derived: float | None,
    expected: float | None,
    band: tuple[float, float] | None,
) -> str:
    """A sentence about a search that ended without a preference, or with one for sizes outside the
    band; or "".

    ``derived`` is the cost of the most probable sizes, ``expected`` that of a drawn shape.

    >>> search_remark(0.0008, 9e6, 8e6, (4.8e6, 5.3e6))[:60]
    'The search was undecided: on average the most probable size '
    >>> search_remark(0.94, 9e6, 8e6, (4.8e6, 5.3e6))[:60]
    'The search ended outside the band: neither its most probable'
    >>> search_remark(0.6, 5e6, 5.1e6, (4.8e6, 5.3e6)), search_remark(None, None, None, None)
    ('', '')
    """
    if discrepancy is not None and discrepancy < DISCREPANCY:
        return (
            "The search was undecided: on average the most probable size is only "
            f"{discrepancy:.2g} more probable than the second. The shape is hardly better than any "
            "other that meets the budget; search for more epochs, or with a larger arch_lr."
        )
    costs = [cost for cost in (derived, expected) if cost is not None]
    if band and len(costs) == 2 and not any(band[0] <= cost <= band[1] for cost in costs):
        return (
            "The search ended outside the band: neither its most probable sizes nor the expected "
            "cost were inside. The shape is not the one that the search preferred; search for more "
            "epochs, or with a larger lambda_cost."
        )
    return ""
