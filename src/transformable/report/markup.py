"""HTML, SVG and Markdown as text, with everything that comes from outside escaped."""

import html
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "cells",
    "code",
    "document",
    "element",
    "embedded",
    "escape",
    "join",
    "pairs",
    "place",
    "plain",
    "svg",
    "table",
]

VOID = {"circle", "line", "meta", "path", "polyline", "rect"}
SIGNS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}


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


def svg(key: str, title: str, description: str, size: tuple[int, int], *content: str) -> str:
    """A picture, which says to those who cannot see it what it shows."""
    return element(
        "svg",
        {
            "viewBox": f"0 0 {size[0]} {size[1]}",
            "role": "img",
            "aria-labelledby": f"{key}-title {key}-text",
        },
        element("title", {"id": f"{key}-title"}, escape(title)),
        element("desc", {"id": f"{key}-text"}, escape(description)),
        *content,
    )


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


def cells(*content: str, kind: str | None = None) -> str:
    """A row of a table; the content is markup already."""
    row = "".join(element("td", {}, cell) for cell in content)
    return element("tr", {"class": kind} if kind else {}, row)


def pairs(values: Mapping[str, Any]) -> str:
    """A list of names and their values."""
    rows = (
        element("div", {}, element("dt", {}, escape(name)), element("dd", {}, _value(value)))
        for name, value in values.items()
    )
    return element("dl", {}, "\n", *(row + "\n" for row in rows))


def _value(value: Any) -> str:
    return escape(value if isinstance(value, str) else json.dumps(value, default=str))


def document(title: str, style: str, body: str) -> str:
    """A whole page, which needs nothing but itself."""
    head = join(
        [
            element("meta", {"charset": "utf-8"}),
            element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
            element("title", {}, escape(title)),
            element("style", {}, style),
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n'
        "</html>\n"
    )


def plain(text: str) -> str:
    """Text in which nothing is taken for Markdown or HTML.

    >>> plain("<b>&a|b")
    '&lt;b&gt;&amp;a&#124;b'
    """
    text = re.sub(r"\s+", " ", text)
    for sign in "&<>|*`[]":
        text = text.replace(sign, SIGNS.get(sign, f"\\{sign}"))
    return text


def code(text: str) -> str:
    """Text as it is, for Markdown, in a fence longer than any in it.

    >>> code("tas prune"), code("a`b")
    ('`tas prune`', '`` a`b ``')
    """
    text = re.sub(r"\s+", " ", text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence, space = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"
