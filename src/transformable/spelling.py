"""Suggestions for misspelt names."""

import difflib
import itertools
from collections.abc import Iterable, Sequence

__all__ = ["join_words", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message: the most similar known name, or a list of the known names.

    >>> nearest("epoch", ["lr", "epochs"])
    "did you mean 'epochs'?"
    >>> nearest("colour", ["lr", "epochs"])
    'known: lr, epochs'
    >>> nearest("resnet21", ["resnet20", "resnet32"])
    "did you mean 'resnet20'?"
    """
    names = list(known)
    close = difflib.get_close_matches(name, names, n=len(names) or 1)
    if close:
        # of equally similar names the one that begins alike: resnet20 for resnet21, not resnet32
        best = max(close, key=lambda known: (_similarity(name, known), _common_start(name, known)))
        return f"did you mean {best!r}?"
    return f"known: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"


def _similarity(name: str, known: str) -> float:
    return difflib.SequenceMatcher(None, known, name).ratio()


def _common_start(name: str, known: str) -> int:
    pairs = itertools.zip_longest(name, known)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def join_words(words: Sequence[str]) -> str:
    """
    >>> join_words(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)
