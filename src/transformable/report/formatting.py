"""Numbers as text, the same on the page and in Markdown, and text made safe for Markdown."""

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = [
    "GIVEN",
    "METRIC_NAMES",
    "MISSING",
    "accuracy_change",
    "amount",
    "as_text",
    "band_text",
    "change",
    "coordinate",
    "count",
    "count_and_share",
    "counted",
    "counted_points",
    "duration",
    "file_size",
    "grew",
    "in_unit",
    "markdown_code",
    "markdown_text",
    "milliseconds",
    "passes",
    "percent",
    "points",
    "score_change",
    "score_text",
    "significant",
]

METRIC_NAMES = {"macs": "MACs", "params": "parameters"}
MISSING = "–"
GIVEN = (
    "The unpruned network was given, not trained here: the held-out images may have been in its "
    "own training, so accuracies on them may be too high, also where a method chooses by them."
)
MINUS = "\N{MINUS SIGN}"
MARKDOWN_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}


def percent(share: float | None) -> str:
    """
    >>> percent(0.98328), percent(None)
    ('98.33%', '–')
    """
    return MISSING if share is None else f"{share:.2%}"


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


def count_and_share(value: float | None, whole: float | None = None) -> str:
    """
    >>> count_and_share(5065029, 10130058), count_and_share(10130058), count_and_share(None)
    ('5.07M (50.0%)', '10.13M', '–')
    """
    if value is None:
        return MISSING
    return f"{count(value)} ({value / whole:.1%})" if whole else count(value)


def counted(number: int, what: str) -> str:
    """
    >>> counted(1, "test image"), counted(10_000, "test image")
    ('1 test image', '10,000 test images')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def counted_points(value: float) -> str:
    """
    >>> counted_points(1.0), counted_points(100 / 24)
    ('1 point', '4.2 points')
    """
    text = f"{value:.2g}"
    return f"{text} {'point' if text == '1' else 'points'}"


def grew(before: float | None, after: float | None) -> bool:
    """
    >>> grew(1.0, 1.04), grew(1.04, 1.0), grew(None, 1.0)
    (True, False, False)
    """
    return before is not None and after is not None and after > before


def file_size(number: int | None) -> str:
    """
    >>> file_size(1112345), file_size(580000), file_size(900)
    ('1.11 MB', '580 kB', '900 bytes')
    """
    if number is None:
        return MISSING
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


def in_unit(value: float, unit: str) -> str:
    """
    >>> in_unit(5102000, "count"), in_unit(0.5, "percent"), in_unit(0.5, "plain")
    ('5.10M', '50.00%', '0.500')
    """
    return {"count": count, "percent": percent}.get(unit, significant)(value)


def milliseconds(value: float | None) -> str:
    """
    >>> milliseconds(1.923), milliseconds(None)
    ('1.92 ms', '–')
    """
    return MISSING if value is None else f"{significant(value)} ms"


def amount(metric: str, value: float) -> str:
    """A cost in the unit of result files.

    >>> amount("macs", 20406597.0), amount("latency", 1.2345)
    ('20,406,597', '1.23 ms')
    """
    return milliseconds(value) if metric == "latency" else f"{value:,.0f}"


def band_text(target: Mapping[str, Any]) -> str:
    """The band of a target.

    >>> band_text({"metric": "macs", "low": 19386268, "high": 21426926})
    '19,386,268 to 21,426,926'
    """
    return " to ".join(amount(target["metric"], target[end]) for end in ("low", "high"))


def duration(seconds: float | None) -> str:
    """
    >>> duration(8.81), duration(210), duration(90000), duration(None)
    ('8.8 s', '3.5 min', '25.0 h', '–')
    """
    if seconds is None:
        return MISSING
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def change(before: float | None, after: float | None) -> str:
    """
    >>> change(200, 101), change(200, 202), change(None, 1.0), change(3, 3)
    ('−49.5%', '+1.0%', '–', '±0.0%')
    """
    if not before or after is None:
        return MISSING
    return f"{_signed(100 * (after / before - 1), 1)}%"


def accuracy_change(before: float | None, after: float | None) -> str:
    """
    >>> accuracy_change(0.983, 0.981), accuracy_change(0.5, 0.5), accuracy_change(None, 0.5)
    ('−0.20 points', '±0.00 points', '–')
    """
    if before is None or after is None:
        return MISSING
    return f"{points(100 * (after - before))} points"


def score_text(value: float | None, name: str) -> str:
    """
    >>> score_text(0.983, "accuracy"), score_text(-0.0123456, "score"), score_text(None, "score")
    ('98.30%', '−0.0123', '–')
    """
    if value is None or name == "accuracy":
        return percent(value)
    return significant(value).replace("-", "−")


def score_change(before: float | None, after: float | None, name: str) -> str:
    """
    >>> score_change(0.983, 0.981, "accuracy"), score_change(-1.5, -1.25, "score")
    ('−0.20 points', '+0.250')
    """
    if before is None or after is None or name == "accuracy":
        return accuracy_change(before, after)
    return ("+" if after >= before else "−") + significant(abs(after - before))


def points(value: float) -> str:
    """
    >>> points(-0.204), points(3)
    ('−0.20', '+3.00')
    """
    return _signed(value, 2)


def passes(value: float | None) -> str:
    """
    >>> passes(45.0), passes(15.26), passes(None)
    ('45', '15.3', '–')
    """
    return MISSING if value is None else f"{value:.1f}".removesuffix(".0")


def _signed(value: float, decimals: int) -> str:
    text = f"{abs(value):.{decimals}f}"
    if not float(text):
        return f"±{text}"
    return f"{MINUS if value < 0 else '+'}{text}"


def coordinate(value: float) -> str:
    """A place in a picture, to a hundredth of a pixel.

    >>> coordinate(12.0), coordinate(0.12345), coordinate(-0.0001)
    ('12', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def as_text(value: Any) -> str:
    """A setting or a note: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def markdown_text(text: str) -> str:
    """Text in which nothing is taken for Markdown or HTML.

    >>> markdown_text("<b>&a|b")
    '&lt;b&gt;&amp;a&#124;b'
    """
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"[&<>|*`\[\]]", lambda sign: MARKDOWN_ESCAPES.get(sign[0], "\\" + sign[0]), text)


def markdown_code(text: str) -> str:
    """Text as it is, in a fence longer than any in it.

    >>> markdown_code("tas prune"), markdown_code("a`b")
    ('`tas prune`', '`` a`b ``')
    """
    text = re.sub(r"\s+", " ", text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"
