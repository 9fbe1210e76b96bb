import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transformable as tas

SOURCE = Path(tas.__file__).parent


def test_every_public_name_is_there_and_listed() -> None:
    assert dir(tas) == sorted(tas.__all__)
    for name in tas.__all__:
        assert getattr(tas, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'prone'"):
        tas.prone  # noqa: B018


def test_every_public_name_has_its_place_in_the_documentation() -> None:
    page = (SOURCE.parents[1] / "docs" / "api.md").read_text()
    shown = re.findall(r"^::: transformable\.(\S+)$", page, flags=re.MULTILINE)
    packages = ("data", "methods", "models")
    inside = [f"{name}.{each}" for name in packages for each in getattr(tas, name).__all__]
    assert sorted(shown) == sorted([*set(tas.__all__) - set(packages), *inside])


def test_a_name_is_what_it_says_whatever_was_imported_before() -> None:
    code = (
        "import transformable.slimming, transformable.training, transformable.searching\n"
        "import transformable as tas\n"
        "print(callable(tas.slim), callable(tas.train), callable(tas.evaluate))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "True True True\n"


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_all_lists_names_that_are_defined(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        element.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for element in getattr(node.value, "elts", [])
        if isinstance(element, ast.Constant)
    ]
    defined = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined.update(ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign):
            defined.add(ast.unparse(node.target))
        elif isinstance(node, ast.ImportFrom):
            defined.update(alias.asname or alias.name for alias in node.names)
    assert listed or not defined or path.stem == "__main__"
    assert set(listed) - defined == set()
    assert len(listed) == len(set(listed))
