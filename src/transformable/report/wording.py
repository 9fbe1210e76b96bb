"""Numbers and findings in words, the same on the page and in the summary."""

from collections.abc import Sequence

from .facts import Facts, Layer

__all__ = [
    "METRICS",
    "NOTHING",
    "blocks",
    "budget",
    "change",
    "count",
    "deriving",
    "duration",
    "file_size",
    "milliseconds",
    "percent",
    "points",
    "significant",
]

METRICS = {"macs": "MACs", "params": "parameters"}
NOTHING = "–"
MINUS = "\N{MINUS SIGN}"


def percent(share: float | None) -> str:
    """
    >>> percent(0.98328), percent(None)
    ('98.33%', '–')
    """
    return NOTHING if share is None else f"{share:.2%}"


def count(number: float) -> str:
    """
    >>> count(10130058), count(271994), count(9640), count(4.1e9)
    ('10.13M', '272.0k', '9,640', '4.10G')
    """
    for unit, size, decimals in (("G", 1e9, 2), ("M", 1e6, 2), ("k", 1e3, 1)):
        # what would be rounded up to 1000k is 1.00M
        if number >= max(size - size * 5e-5, 1e4):
            return f"{number / size:.{decimals}f}{unit}"
    return f"{number:,.0f}"


def file_size(number: int | None) -> str:
    """
    >>> file_size(1112345), file_size(580000), file_size(900)
    ('1.11 MB', '580 kB', '900 bytes')
    """
    if number is None:
        return NOTHING
    if number < 1000:
        return f"{number} bytes"
    return f"{number / 1e6:,.2f} MB" if number >= 999_500 else f"{number / 1e3:.0f} kB"


def significant(value: float) -> str:
    """Three significant digits, never with an exponent.

    >>> significant(1.9), significant(0.01234), significant(141.6), significant(0)
    ('1.90', '0.0123', '142', '0')
    """
    if not value:
        return "0"
    # rounded first: 9.996 has one digit before the point, 10.0 has two
    exponent = int(f"{value:.2e}".split("e")[1])
    return f"{value:,.{max(0, 2 - exponent)}f}"


def milliseconds(value: float | None) -> str:
    """
    >>> milliseconds(1.923), milliseconds(None)
    ('1.92 ms', '–')
    """
    return NOTHING if value is None else f"{significant(value)} ms"


def duration(seconds: float) -> str:
    """
    >>> duration(8.81), duration(3000), duration(90000)
    ('8.8 s', '50 min', '25.0 h')
    """
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def change(before: float | None, after: float | None) -> str:
    """
    >>> change(200, 101), change(200, 202), change(None, 1.0), change(3, 3)
    ('−49.5%', '+1.0%', '–', '±0.0%')
    """
    if not before or after is None:
        return NOTHING
    return f"{_signed(100 * (after / before - 1), 1)}%"


def points(before: float, after: float) -> str:
    """A change of an accuracy.

    >>> points(0.983, 0.981), points(0.5, 0.5)
    ('−0.20 points', '±0.00 points')
    """
    return f"{_signed(100 * (after - before), 2)} points"


def _signed(value: float, decimals: int) -> str:
    text = f"{abs(value):.{decimals}f}"
    if not float(text):
        return f"±{text}"
    return f"{MINUS if value < 0 else '+'}{text}"


def blocks(layers: Sequence[Layer]) -> dict[int | None, list[Layer]]:
    """The layers of a stage by block."""
    found: dict[int | None, list[Layer]] = {}
    for layer in layers:
        found.setdefault(layer.block, []).append(layer)
    return found


def budget(facts: Facts) -> str:
    """Whether the small network is what was asked for."""
    target, cost = facts.target, facts.after.cost(facts.target.metric)
    share = target.value / facts.before.cost(target.metric)
    name = METRICS.get(target.metric, target.metric)
    band = f"the band of {target.low:,} to {target.high:,}"
    verdict = f"is met: {cost:,} lies in" if facts.met else f"is missed: {cost:,} lies outside"
    return (
        f"The budget of {target.value:,.0f} {name} ({share:.1%} of the unpruned network) "
        f"{verdict} {band}."
    )


def deriving(facts: Facts) -> str:
    """How the shape came out of the distributions."""
    if facts.derived_by == "argmax":
        return "The shape is the most probable size of every layer and stage."
    return (
        "The most probable sizes together were outside the band, so the shape is the most probable "
        f"one inside it; that gave up {significant(facts.given_up)} nats of log-probability."
    )
