"""Strict config files: flat TOML, read over a config and written from one."""

import functools
import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar, get_origin

import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError

from ..settings import values
from ..spelling import nearest

__all__ = ["read_config", "write_config"]

T = TypeVar("T")

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def read_config(path: str | Path, base: T) -> T:
    """The config that ``base`` becomes when the keys in the file replace its own."""
    try:
        given = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read config file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"config file {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"config file {path} is not TOML: {error}") from None
    try:
        return _converter().structure({**values(base), **given}, type(base))
    except ClassValidationError as error:
        raise ValueError(f"config file {path}: {_reason(error, given, base)}") from None


def write_config(config: Any) -> str:
    """The TOML text that ``read_config`` turns into the same config.

    >>> from transformable.cli.queries import Evaluate
    >>> print(write_config(Evaluate(run="runs/a", batch_size=8)).splitlines()[:2])
    ['run = "runs/a"', 'download = false']
    """
    return "".join(f"{name} = {_toml(value)}\n" for name, value in values(config).items())


def _toml(value: str | bool | int | float) -> str:
    if isinstance(value, str):
        # JSON strings are TOML strings, but for one control character that JSON leaves as it is
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)


@functools.cache
def _converter() -> cattrs.Converter:
    """One that takes only what has the right type: cattrs alone would turn "3" into 3."""
    converter = cattrs.Converter(forbid_extra_keys=True)
    accepted: dict[type, tuple[type, ...]] = {
        int: (int,),
        float: (int, float),
        str: (str,),
        bool: (bool,),
    }
    for kind, kinds in accepted.items():
        converter.register_structure_hook(kind, _only(kind, kinds))
    converter.register_structure_hook(str | None, _only(str, (str,)))
    # the config knows its choices and says them better
    converter.register_structure_hook_func(_is_literal, _only(str, (str,)))
    return converter


def _is_literal(kind: Any) -> bool:
    return get_origin(kind) is Literal


def _only(kind: type, accepted: tuple[type, ...]) -> Any:
    def structure(value: Any, _: Any) -> Any:
        # a bool is an int for Python, not for a person who writes a config
        if isinstance(value, accepted) and (kind is bool or not isinstance(value, bool)):
            return kind(value)
        raise TypeError(WORDS[kind])

    return structure


def _reason(error: ClassValidationError, given: dict[str, Any], base: Any) -> str:
    first = error.exceptions[0]
    known = [field.name for field in fields(base)]
    if isinstance(first, ForbiddenExtraKeysError):
        key = next(key for key in given if key in first.extra_fields)
        return f"unknown key {key!r}; {nearest(key, known)}"
    (notes, others) = error.group_exceptions()
    if not notes:
        return str(others[0])  # raised by the checks of the config itself
    (cause, note) = notes[0]
    value = given[note.name]
    if isinstance(cause, TypeError):
        return f"{note.name} must be {cause}, not {value!r}"
    return f"{note.name} cannot be {value!r}: {cause}"
