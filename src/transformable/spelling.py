"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["join_words", "nearest"]


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


def join_words(words: Sequence[str]) -> str:
    """
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
