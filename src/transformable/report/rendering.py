"""Fills in the templates.

HTML is escaped by Jinja; the Markdown templates say ``|markdown_text`` or ``|markdown_code``.
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from . import formatting
from .heat_map import opacity
from .line_chart import FRAME, column, line_axes
from .network_picture import bar_percent

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
    formats = {name: getattr(formatting, name) for name in formatting.__all__}
    environment.filters |= {name: made for name, made in formats.items() if callable(made)}
    environment.filters["with_commas"] = "{:,}".format
    environment.filters |= {"bar_percent": bar_percent, "column": column, "opacity": opacity}
    environment.globals |= {"line_axes": line_axes, "line_frame": FRAME}
    environment.globals |= {"metric_names": formatting.METRIC_NAMES, "given": formatting.GIVEN}
    return environment
