"""Plain settings as TOML, which tomllib reads back to the same values."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["to_toml"]


def to_toml(settings: Mapping[str, Any]) -> str:
    """TOML text: plain values first, then one table for each inner mapping.

    >>> print(to_toml({"train": {"lr": 0.1}, "model": "resnet20", "ratios": [0.5, 1.0]}), end="")
    model = "resnet20"
    ratios = [0.5, 1.0]
    <BLANKLINE>
    [train]
    lr = 0.1
    """
    plain = {name: value for name, value in settings.items() if not isinstance(value, Mapping)}
    text = "".join(f"{name} = {_value(value)}\n" for name, value in plain.items())
    for name, table in settings.items():
        if isinstance(table, Mapping):
            text += f"\n[{name}]\n{to_toml(table)}"
    return text


def _value(value: Any) -> str:
    # JSON's numbers, booleans, lists and strings are TOML, but for one control character
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
