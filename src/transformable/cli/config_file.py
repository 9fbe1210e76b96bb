"""Strict config files: TOML with the options of a command, read over its defaults."""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from ..settings import plain_values
from ..spelling import nearest

__all__ = ["read_config"]

T = TypeVar("T")

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def read_config(path: str | Path, base: T) -> T:
    """The options that ``base`` becomes when the keys in the file replace its own."""
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"config file {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"config file {path} is not TOML: {error}") from None
    for name in ("format", "version", "command"):  # config.toml of a run folder has these too
        given.pop(name, None)
    try:
        return _converter().structure(_merged(plain_values(base), given), type(base))
    except ClassValidationError as error:
        raise ValueError(f"config file {path}: {_reason(error, given, base)}") from None


def _merged(base: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``base``, replaced by the given ones also inside of sections."""
    merged = {**base, **given}
    for name, value in given.items():
        inner = base.get(name)
        if isinstance(inner, str) and _reads_as_numbers(inner):
            merged[name] = _numbers_as_text(value)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            merged[name] = _merged(inner, value)
    return merged


def _reads_as_numbers(text: str) -> bool:
    """Whether an option is text because a number may have a unit, as a budget may: 0.5 or 20M."""
    return text.replace(".", "").replace(",", "").isdigit()


def _numbers_as_text(value: Any) -> Any:
    """
    >>> _numbers_as_text(0.5), _numbers_as_text([0.3, "20M"]), _numbers_as_text(True)
    ('0.5', '0.3,20M', True)
    """
    if isinstance(value, list):
        return ",".join(str(_numbers_as_text(each)) for each in value)
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if numeric else value


@functools.cache
def _converter() -> cattrs.Converter:
    """A converter that checks types: cattrs alone would turn "3" into 3."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    for kind in (int, float, str, bool):
        converter.register_structure_hook(kind, _only(kind))
    converter.register_structure_hook(str | None, _only(str))
    converter.register_structure_hook(int | None, _only(int))
    # the options know their choices and name them in their own message
    converter.register_structure_hook_func(lambda kind: "Literal" in str(kind), _only(str))
    return converter


def _only(kind: type) -> Any:
    accepted = (int, float) if kind is float else kind

    def structure(value: Any, _: Any) -> Any:
        # a bool is an int for Python, but not in a config file
        if isinstance(value, accepted) and (kind is bool or not isinstance(value, bool)):
            return kind(value)
        raise TypeError(WORDS[kind])

    return structure


def _reason(
    error: ClassValidationError, given: Mapping[str, Any], base: Any, prefix: str = ""
) -> str:
    """The first thing that is wrong with the given values; ``prefix`` names their section."""
    first = error.exceptions[0]
    if isinstance(first, ForbiddenExtraKeysError):
        key = next(key for key in given if key in first.extra_fields)
        known = [field.name for field in fields(base)]
        return f"unknown key {prefix + key!r}; {nearest(key, known)}"
    (notes, others) = error.group_exceptions()
    if not notes:
        # raised by the checks of the options themselves, and begins with the name of one
        return f"{prefix}{others[0]}"
    (cause, note) = notes[0]
    if isinstance(cause, ClassValidationError):
        name = note.name
        return _reason(cause, given[name], getattr(base, name), f"{prefix}{name}.")
    value = given[note.name]
    if isinstance(value, Mapping):
        return f"{prefix}{note.name} must be {cause}, not a table"
    if isinstance(cause, TypeError):
        return f"{prefix}{note.name} must be {cause}, not {value!r}"
    return f"{prefix}{note.name} cannot be {value!r}: {cause}"
