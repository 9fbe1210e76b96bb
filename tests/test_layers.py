"""The order of packages: a module imports only from its own package and from those before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import transformable

SOURCE = Path(transformable.__file__).parent
ROOMS = [
    *("models", "data", "tracing", "costing", "slimming", "timing", "supernet", "runs", "training"),
    *("searching", "methods", "networks", "report", "pruning", "comparing", "reproducing", "cli"),
]


def room(path: Path) -> int:
    """The place of a module's package in the order; single modules come before all packages."""
    first = path.relative_to(SOURCE).parts[0]
    return ROOMS.index(first) if first in ROOMS else -1


def imported(path: Path) -> set[Path]:
    """The modules and packages of this project that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            found |= {base / alias.name for alias in node.names} | {base}
    return {place for place in found if place.is_dir() or place.with_suffix(".py").is_file()}


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    later = {p for p in imported(path) if p != SOURCE and room(p) > room(path)}
    assert later == set()


def test_single_modules_import_no_room() -> None:
    for path in SOURCE.glob("*.py"):
        if path.stem not in ("__init__", "__main__"):
            assert {p for p in imported(path) if p.parent != SOURCE and p != SOURCE} == set()


def test_every_package_is_a_room() -> None:
    assert {p.parent.name for p in SOURCE.glob("*/__init__.py")} == set(ROOMS)


def test_only_the_command_line_knows_its_parser_and_tables() -> None:
    code = (
        "import sys, transformable.training.train, transformable.pruning.prune\n"
        "import transformable.comparing.comparison\n"
        "print([name for name in ('tyro', 'rich', 'transformable.cli') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"
