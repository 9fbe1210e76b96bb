"""Methods to prune a network, one file each: ``method(model, space, budget, context)``."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..spelling import nearest

if TYPE_CHECKING:
    from .interface import Context, Method, MethodResult

__all__ = ["METHODS", "SERVE_ALL_BUDGETS", "Context", "Method", "MethodResult", "load_method"]

METHODS = {
    "tas": "tas:both",
    "tas-width": "tas:width",
    "tas-depth": "tas:depth",
    **{name: f"{name}:{name}" for name in ("uniform", "random", "pfec", "fpgm", "taylor")},
    "slimming": "network_slimming:slimming",
    **{name: f"{name}:{name}" for name in ("sfp", "cp", "amc", "autoslim", "lccl")},
    "torch-pruning": "torch_pruning:torch_pruning",
    "torch-pruning-sparse": "torch_pruning:torch_pruning_sparse",
}
"""Where each method is in this package, as "module:function"; imported when it is asked for."""

SERVE_ALL_BUDGETS = ("tas", "tas-width")
"""Methods that find the networks of several budgets in one search."""


def load_method(spec: str) -> "Method":
    """The method of this name, or the function of ``path.py:function``.

    >>> load_method("pfec").__name__
    'pfec'
    >>> load_method("pfek")
    Traceback (most recent call last):
    ValueError: unknown method 'pfek'; did you mean 'pfec'?
    """
    method: Method
    if spec in METHODS:
        module, _, function = METHODS[spec].partition(":")
        method = getattr(import_module(f".{module}", __name__), function)
    elif ":" in spec or spec.endswith(".py"):
        from ..user_code import check_arguments, load_function

        method = load_function(spec, what="method")
        check_arguments(method, ("model", "space", "budget", "context"), f"method {spec!r}")
    else:
        raise ValueError(f"unknown method {spec!r}; {nearest(spec, METHODS)}")
    return method


def __getattr__(name: str) -> Any:
    # what needs torch is imported late, so that the names of the methods are quickly known
    if name in __all__:
        return getattr(import_module(".interface", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
