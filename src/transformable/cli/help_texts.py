"""The docstrings of options as their help texts."""

import ast
import inspect
import itertools
import textwrap
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any

__all__ = ["set_help_texts"]


def set_help_texts(kind: Any) -> None:
    """Give every field of a dataclass, and of the dataclasses in it, its docstring as help text.

    tyro would read the docstrings itself, but it breaks their lines where the source does.
    """
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        texts |= _docstrings(base) if is_dataclass(base) else {}
    for field in fields(kind):
        field.metadata = MappingProxyType({**field.metadata, "help": texts.get(field.name)})
        if is_dataclass(field.type):
            set_help_texts(field.type)


def _docstrings(kind: Any) -> dict[str, str]:
    """The text under each field of a class, as one paragraph."""
    [definition] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(text.value.value.split())
        for field, text in itertools.pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
