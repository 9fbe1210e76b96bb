"""Functions loaded from a user's own file."""

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
        ("nowhere.py:f", ": file nowhere.py is not there"),
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
