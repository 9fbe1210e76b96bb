"""The layers that keep their width, for people to read: similar reasons together."""

import re
from collections.abc import Mapping

__all__ = ["describe_fixed", "like_reasons"]


def like_reasons(fixed: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Layers whose reasons differ in names and numbers alone, with the reason of the first; the
    most frequent reason comes first.

    >>> like_reasons({"a": "'mix' is odd", "b.0": "'add_0' is new", "b.1": "'add_1' is new"})
    [(['b.0', 'b.1'], "'add_0' is new"), (['a'], "'mix' is odd")]
    """
    layers: dict[str, list[str]] = {}
    for name, reason in fixed.items():
        layers.setdefault(re.sub(r"'[^']*'|\d+", "", reason), []).append(name)
    groups = sorted(layers.values(), key=len, reverse=True)
    return [(names, fixed[names[0]]) for names in groups]


def describe_fixed(fixed: Mapping[str, str]) -> list[str]:
    """A line for each kind of reason.

    >>> describe_fixed({"a": "'mix' is odd", "b.0": "'add_0' is new", "b.1": "'add_1' is new"})
    ["b.0 and 1 more keep their width: 'add_0' is new", "a keeps its width: 'mix' is odd"]
    """
    lines = []
    for (first, *others), reason in like_reasons(fixed):
        more = f" and {len(others)} more keep their" if others else " keeps its"
        lines.append(f"{first}{more} width: {reason}")
    return lines
