"""Ways to make a network smaller, one file each: ``method(model, space, budget, context)``."""

from importlib import import_module

from ..comparing.grid import METHODS
from ..spelling import nearest
from .interface import Context, Method, MethodResult

__all__ = ["METHODS", "Context", "Method", "MethodResult", "method"]


def method(name: str) -> Method:
    """The method of this name.

    >>> method("pfec").__name__
    'pfec'
    >>> method("pfek")
    Traceback (most recent call last):
    ValueError: unknown method 'pfek'; did you mean 'pfec'?
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; {nearest(name, list(METHODS))}")
    module, _, function = METHODS[name].partition(":")
    found: Method = getattr(import_module(f".{module}", __name__), function)
    return found
