"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar known name, or a list of the known names.

    >>> nearest("epoch", ["lr", "epochs"])
    "did you mean 'epochs'?"
    >>> nearest("colour", ["lr", "epochs"])
    'known: lr, epochs'
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
