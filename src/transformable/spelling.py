"""What somebody probably meant."""

import difflib
from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """Words for an error: the known name that is closest, or the known names.

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
