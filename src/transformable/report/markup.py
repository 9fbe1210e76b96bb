"""HTML and SVG as text, with everything that comes from outside escaped."""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["element", "embedded", "escape", "join", "place", "table"]

VOID = {"circle", "line", "meta", "path", "polyline", "rect"}


def escape(text: object) -> str:
    """
    >>> escape('<b>&"')
    '&lt;b&gt;&amp;&quot;'
    """
    return html.escape(str(text))


def element(name: str, attributes: Mapping[str, object] | None = None, *content: str) -> str:
    """One element; the content is markup already, the attributes are not.

    >>> element("p", {"title": '"'}, "one ", element("b", {}, "two"))
    '<p title="&quot;">one <b>two</b></p>'
    >>> element("rect", {"x": 1.0, "width": 2 / 3})
    '<rect x="1" width="0.67"/>'
    """
    words = "".join(
        f' {key}="{escape(place(value) if isinstance(value, float) else value)}"'
        for key, value in (attributes or {}).items()
    )
    if name in VOID:
        return f"<{name}{words}/>"
    return f"<{name}{words}>{''.join(content)}</{name}>"


def place(value: float) -> str:
    """A coordinate: a hundredth of a pixel is more than a screen shows.

    >>> place(12.0), place(0.12345), place(-0.0001)
    ('12', '0.12', '0')
    """
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def join(parts: Sequence[str]) -> str:
    """Parts of a page, each on a line of its own."""
    return "\n".join(part for part in parts if part)


def embedded(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it can end the element.

    >>> embedded("</script><!--")
    '"\\\\u003c/script>\\\\u003c!--"'
    """
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def table(label: str, head: Sequence[str], rows: Sequence[str]) -> str:
    """A table in a box of its own, which scrolls (by keyboard too) where the screen is narrow."""
    names = "".join(element("th", {"scope": "col"}, name) for name in head)
    return element(
        "div",
        {"class": "scroll", "role": "region", "aria-label": label, "tabindex": "0"},
        element(
            "table",
            {},
            element("thead", {}, element("tr", {}, names)),
            element("tbody", {}, "\n", *(row + "\n" for row in rows)),
        ),
    )
