"""The model card of an exported network: its accuracy and cost, how it was made, how to load it."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from ..data import Info
from .blueprint import Blueprint

__all__ = ["model_card"]

TEMPLATE = Path(__file__).with_suffix(".txt")
SEARCHED_SIZES = {
    "tas": "The widths of its layers and the depths of its stages",
    "tas-width": "The widths of its layers",
    "tas-depth": "The depths of its stages",
}


def model_card(
    summary: dict[str, Any], info: Info, blueprint: Blueprint, exported: dict[str, Any]
) -> str:
    """Markdown from the result of a run, its dataset and the result of ``export``."""
    environment = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_escaped,
    )
    environment.filters |= {"with_commas": "{:,}".format, "percent": "{:.2%}".format}
    environment.filters |= {"three_digits": "{:.3g}".format, "six_digits": "{:.6g}".format}
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(
        result=summary,
        searched_sizes=_searched_sizes(summary),
        info=info,
        own=blueprint.model is None or blueprint.runs_a_file,
        files=exported["files"],
    )


def _searched_sizes(summary: dict[str, Any]) -> str | None:
    """What a search has learnt, in words; None for another method."""
    method = summary.get("method", "tas")
    if method == "tas" and summary.get("shape", {}).get("depths") == {}:
        method = "tas-width"  # the network has no stages
    return SEARCHED_SIZES.get(method)


def _escaped(value: Any) -> Any:
    """A text without HTML, line breaks and table separators: names come from files.

    >>> _escaped("<b>a|b\\nc"), _escaped(3)
    ('&lt;b>a\\\\|b c', 3)
    """
    if not isinstance(value, str):
        return value
    return " ".join(value.replace("<", "&lt;").replace("|", r"\|").splitlines())
