"""Functions loaded from a user's own file."""

import json
import sys
from pathlib import Path

import pytest

from transformable.networks.build import build_network
from transformable.user_code import load_function

CODE = """
import math

size = 3

def double(x):
    return 2 * x

class Callable:
    def __call__(self, x):
        return 3 * x

triple = Callable()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(CODE)
    return path


def test_a_function_and_another_callable(file: Path) -> None:
    assert load_function(f"{file}:double")(4) == 8
    assert load_function(f"{file}:triple", "method")(4) == 12


@pytest.mark.parametrize("what", ["model", "method"])
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{file}", " needs the name of a function: {file}:FUNCTION"),
        ("nowhere.py:f", ": file nowhere.py does not exist"),
        ("folder:f", " must be the name of a {what} or path.py:FUNCTION"),
        ("plain", " must be the name of a {what} or path.py:FUNCTION"),
        ("{file}:half", ": {file} has no function 'half'; it has double"),
        ("{file}:size", ": {file} has no function 'size'; it has double"),
    ],
)
def test_what_cannot_be_loaded(file: Path, what: str, spec: str, message: str) -> None:
    spec = spec.format(file=file)
    with pytest.raises(ValueError, match=what) as caught:
        load_function(spec, what)
    assert str(caught.value) == f"{what} {spec!r}" + message.format(file=file, what=what)


def test_a_file_without_functions(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ValueError, match="has no function 'f'; it has none"):
        load_function(f"{tmp_path / 'empty.py'}:f")


@pytest.mark.parametrize("text", ["def net():\n    raise SystemExit(0)", "import sys; sys.exit(5)"])
def test_a_file_that_wants_to_exit(tmp_path: Path, text: str) -> None:
    (tmp_path / "leave.py").write_text(text)
    with pytest.raises(ValueError, match="failed: SystemExit"):
        build_network(f"{tmp_path / 'leave.py'}:net", num_classes=2, in_channels=1)


def test_a_file_that_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    with pytest.raises(ValueError, match=r"bad.py failed: ModuleNotFoundError: No module named"):
        load_function(f"{tmp_path}/bad.py:net")
    (tmp_path / "bad.py").write_text("def net(:")
    with pytest.raises(ValueError, match=r"bad.py failed: SyntaxError: "):
        load_function(f"{tmp_path}/bad.py:net")


def folder_of(path: Path, size: int) -> Path:
    """A folder with a network file, its neighbour, and a package that the neighbour imports."""
    path.mkdir()
    (path / "pieces").mkdir()
    (path / "pieces" / "__init__.py").write_text(f"SIZE = {size}")
    (path / "mynet.py").write_text(
        "from dataclasses import dataclass\nfrom torch import nn\nfrom pieces import SIZE\n"
        "class MyNet(nn.Linear):\n    def __init__(self):\n        super().__init__(SIZE, SIZE)\n"
    )
    (path / "factory.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "from mynet import MyNet\n@dataclass\nclass Sizes:\n    width: int = 3\n"
        "def make():\n    import mynet, late\n    assert mynet.MyNet is MyNet\n    return MyNet()\n"
        "def breaks():\n    return late_name\n"
    )
    (path / "late.py").write_text("")
    return path / "factory.py"


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    path, modules = list(sys.path), dict(sys.modules)
    for size in (5, 7):  # of the same names, in another folder
        file = folder_of(tmp_path / str(size), size)
        model = build_network(f"{file}:make", num_classes=2, in_channels=1)
        assert [tuple(p.shape) for p in model.parameters()] == [(size, size), (size,)]
        assert sys.path == path
        assert not {"mynet", "pieces", "late", "factory"} & set(sys.modules)
    assert all(sys.modules[name] is module for name, module in modules.items())


def test_a_file_with_the_name_of_a_module_does_not_replace_it(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("import json\ndef name():\n    return json.dumps({})")
    assert load_function(f"{tmp_path / 'json.py'}:name")() == "{}"
    assert sys.modules["json"] is json


def test_the_line_of_the_users_code_is_named(tmp_path: Path) -> None:
    file = folder_of(tmp_path / "net", 3)
    with pytest.raises(ValueError, match="failed: NameError") as caught:
        build_network(f"{file}:breaks", num_classes=2, in_channels=1)
    assert str(caught.value).endswith("(factory.py, line 12)")
    (tmp_path / "net" / "third.py").write_text("import torch\ntorch.zeros(2).view(3)")
    with pytest.raises(ValueError, match=r"RuntimeError: .* \(third.py, line 2\)$"):
        load_function(f"{tmp_path / 'net' / 'third.py'}:net")
