"""Functions in a user's own file, named on the command line as ``path.py:function``."""

import importlib.util
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, wraps
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

__all__ = [
    "accepted_arguments",
    "check_arguments",
    "first_line",
    "is_function_spec",
    "load_function",
    "own_line",
]


def is_function_spec(spec: str) -> bool:
    """Whether ``spec`` names a function in a file, rather than a built-in name."""
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
        raise ValueError(f"{what} {spec!r}: file {path} does not exist")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    assert module_spec is not None
    assert module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    folder = path.parent.resolve()
    try:
        with _beside(folder):
            # its own name is known while it runs, unless that is the name of another module
            sys.modules.setdefault(path.stem, module)
            module_spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(f"{what} {spec!r}: {path} failed: {first_line(error)}") from error
    function: Callable[..., Any] | None = getattr(module, name, None)
    if not callable(function):
        known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
        raise ValueError(
            f"{what} {spec!r}: {path} has no function {name!r}; it has {', '.join(known) or 'none'}"
        )

    @wraps(function)
    def with_neighbours(*args: Any, **kwargs: Any) -> Any:
        with _beside(folder):
            return function(*args, **kwargs)

    return with_neighbours


_NEIGHBOURS: dict[Path, dict[str, ModuleType]] = {}
"""The modules that were imported from the folder of a user's file."""


@contextmanager
def _beside(folder: Path) -> Iterator[None]:
    """Within the context, imports find the modules in a folder. They are kept for its own files
    alone: another folder may have others of the same names."""
    own = _NEIGHBOURS.setdefault(folder, {})
    path, before = list(sys.path), dict(sys.modules)
    sys.path.insert(0, str(folder))
    sys.modules.update(own)
    try:
        yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if before.get(name) is not module and _is_in(folder, name, module):
                own[name] = sys.modules.pop(name)
                sys.modules.update({name: before[name]} if name in before else {})


def _is_in(folder: Path, name: str, module: ModuleType) -> bool:
    """Whether a module was found in a folder, and not in a virtual environment inside it."""
    file = Path(getattr(module, "__file__", None) or "/")
    if not file.is_relative_to(folder):
        return False
    return file.relative_to(folder).parts[0].removesuffix(".py") == name.split(".")[0]


def accepted_arguments(function: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of the offered keyword arguments that the function takes.

    >>> accepted_arguments(lambda num_classes: None, {"num_classes": 10, "in_channels": 3})
    {'num_classes': 10}
    """
    parameters = inspect.signature(function).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return offered
    return {name: value for name, value in offered.items() if name in parameters}


def check_arguments(function: Callable[..., Any], arguments: Sequence[str], what: str) -> None:
    """Raise a ValueError unless the function can be called with these arguments, in this order.

    >>> check_arguments(lambda model: None, ("model", "space"), "method 'mine'")
    Traceback (most recent call last):
    ValueError: method 'mine' must take the arguments (model, space): too many positional arguments
    """
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        expected = ", ".join(arguments)
        raise ValueError(f"{what} must take the arguments ({expected}): {error}") from None


def first_line(error: BaseException) -> str:
    """The kind of an exception, the first line of its message and the line of the user's code that
    it comes from."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    if isinstance(error, SyntaxError):
        return text  # it names the line itself
    frames = reversed(list(traceback.walk_tb(error.__traceback__)))
    line = own_line(frames)
    return f"{text} ({line})" if line else text


def own_line(frames: Iterable[tuple[FrameType, int]]) -> str:
    """The file and line of the first of these frames that is in a user's own code."""
    for frame, line in frames:
        if _is_own(frame.f_code.co_filename):
            return f"{Path(frame.f_code.co_filename).name}, line {line}"
    return ""


_NOT_OWN = [Path(__file__).parent, *map(Path, sysconfig.get_paths().values())]


@cache
def _is_own(file: str) -> bool:
    return not file.startswith("<") and not any(map(Path(file).is_relative_to, _NOT_OWN))
