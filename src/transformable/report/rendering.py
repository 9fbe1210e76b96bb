"""Fills in the templates.

HTML is escaped by Jinja; the Markdown templates say ``|markdown`` or ``|code`` themselves.
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from . import formatting, heat_map, network_picture

__all__ = ["render"]


def render(template: str, **values: Any) -> str:
    """The text of a template with these values in it."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    here = Path(__file__).parent
    environment = Environment(
        # the folder itself for style.css and script.js, which the pages include
        loader=FileSystemLoader([here / "templates", here]),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=lambda value: formatting.coordinate(value) if isinstance(value, float) else value,
    )
    # compact, and in the order given
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {
        "as_text": formatting.as_text,
        "code": formatting.markdown_code,
        "commas": lambda number: f"{number:,}",
        "count": formatting.count,
        "duration": formatting.duration,
        "file_size": formatting.file_size,
        "markdown": formatting.markdown_text,
        "milliseconds": formatting.milliseconds,
        "opacity": heat_map.opacity,
        "percent": formatting.percent,
        "significant": formatting.significant,
        "tenths": lambda thousandths: f"{thousandths / 10:.1f}%",
    }
    environment.globals |= {
        "accuracy_change": formatting.accuracy_change,
        "bar_percent": network_picture.bar_percent,
        "change": formatting.change,
    }
    return environment
