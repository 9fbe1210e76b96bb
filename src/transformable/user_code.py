"""Functions in a user's own file, named on the command line as ``path.py:function``."""

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["accepted_arguments", "first_line", "is_function_spec", "load_function"]


def is_function_spec(spec: str) -> bool:
    """Whether ``spec`` names a function in a file, rather than something known by its name."""
    return ":" in spec or spec.endswith(".py")


def load_function(spec: str, what: str = "model") -> Callable[..., Any]:
    """Run the file of ``path.py:function`` and return its function.

    ``what`` says in error messages what the function is for: a model, a method.
    """
    (path_text, colon, name) = spec.rpartition(":")
    if not colon and spec.endswith(".py"):
        raise ValueError(f"{what} {spec!r} needs the name of a function: {spec}:FUNCTION")
    path = Path(path_text)
    if path.suffix != ".py":
        raise ValueError(f"{what} {spec!r} must be the name of a {what} or path.py:FUNCTION")
    if not path.is_file():
        raise ValueError(f"{what} {spec!r}: file {path} is not there")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{what} {spec!r}: {path} failed: {first_line(error)}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"{what} {spec!r}: {path} has no function {name!r}; it has {', '.join(known) or 'none'}"
        )
    return function


def accepted_arguments(function: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the offered keyword arguments that the function takes.

    >>> accepted_arguments(lambda num_classes: None, {"num_classes": 10, "in_channels": 3})
    {'num_classes': 10}
    """
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return offered
    return {name: value for name, value in offered.items() if name in parameters}


def first_line(error: BaseException) -> str:
    """The kind of an exception and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
