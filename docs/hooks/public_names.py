"""Warn of public names that the API page leaves out and of those without a docstring.

``mkdocs build --strict`` fails at any warning.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

log = logging.getLogger("mkdocs.hooks.public_names")
ROOT = Path(__file__).parents[2]
MODULES = ("data", "models", "methods")
"""Public names of the package that are packages with public names of their own."""


def on_pre_build(config: Any) -> None:
    package = griffe.load("transformable", search_paths=[ROOT / "src"], resolve_aliases=True)
    shown = re.findall(r"^::: (\S+)", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    names = set(public_names(package))
    for name in sorted(names - set(shown)):
        log.warning("docs/api.md has no entry for the public name %s", name)
    for name in sorted(set(shown) & names):
        for missing in undocumented(package[name.removeprefix("transformable.")]):
            log.warning("no docstring: %s", missing)


def public_names(package: griffe.Module) -> Iterator[str]:
    for name in package.exports or ():
        if str(name) not in MODULES:
            yield f"transformable.{name}"
    for module in MODULES:
        for name in package[module].exports or ():
            yield f"transformable.{module}.{name}"


def undocumented(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    """The name itself and, of a class, its methods, properties and fields."""
    found = found.final_target if found.is_alias else found
    if not found.has_docstring:
        yield found.canonical_path
    if found.is_class:
        for member in found.members.values():
            # of a class that is no dataclass, attributes are what __init__ sets
            shown = not member.is_attribute or {"property", "dataclass"} & (
                member.labels | found.labels
            )
            if shown and not (member.name.startswith("_") or member.has_docstring):
                yield member.canonical_path
