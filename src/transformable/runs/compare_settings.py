"""Two runs' settings beside each other."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

__all__ = ["first_difference", "flat_settings"]


def first_difference(
    there: Mapping[str, Any], here: Mapping[str, Any], may_differ: Collection[str] = ()
) -> str | None:
    """The first setting with two different values, in words."""
    there, here = flat_settings(there), flat_settings(here)
    for name in {**there, **here}:
        before, now = there.get(name, "not given"), here.get(name, "not given")
        if name == "data" and _without_folder(before) == _without_folder(now):
            continue  # the images may have moved: their fingerprint identifies them
        if name not in may_differ and before != now:
            return f"{name} is {before} there and {now} here"
    return None


def _without_folder(data: str) -> str:
    """
    >>> _without_folder("npz:/home/me/faces.npz"), _without_folder("cifar10:16")
    ('npz:faces.npz', 'cifar10:16')
    """
    kind, colon, path = data.partition(":")
    return f"{kind}{colon}{Path(path).name}"


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings with those of inner sections by their full names."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flat_settings(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat
