"""Ways to make a network smaller, one file each: ``method(model, space, budget, context)``."""

from importlib import import_module

from ..spelling import nearest
from .interface import Context, Method, MethodResult

__all__ = ["METHODS", "Context", "Method", "MethodResult", "load_method"]

METHODS = {
    "tas": "tas:both",
    "tas-width": "tas:width",
    "tas-depth": "tas:depth",
    **{name: f"{name}:{name}" for name in ("uniform", "random", "pfec", "fpgm", "taylor")},
    "slimming": "network_slimming:slimming",
    **{name: f"{name}:{name}" for name in ("sfp", "cp", "amc", "autoslim", "lccl")},
}
"""Where each method is in this package, as "module:function"."""


def load_method(spec: str) -> Method:
    """The method of this name, or path.py:function.

    >>> load_method("pfec").__name__
    'pfec'
    >>> load_method("pfek")
    Traceback (most recent call last):
    ValueError: unknown method 'pfek'; did you mean 'pfec'?
    """
    if ":" in spec:
        from ..user_code import load_function

        own: Method = load_function(spec, what="method")
        return own
    if spec not in METHODS:
        raise ValueError(f"unknown method {spec!r}; {nearest(spec, list(METHODS))}")
    module, _, function = METHODS[spec].partition(":")
    found: Method = getattr(import_module(f".{module}", __name__), function)
    return found
