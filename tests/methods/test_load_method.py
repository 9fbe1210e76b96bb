"""Methods by name, and from a file of one's own."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.method_inputs import context, network
from transformable.costing.budget import Budget
from transformable.methods import METHODS, load_method


def test_every_name_is_a_function() -> None:
    assert all(callable(load_method(name)) for name in METHODS)


def test_unknown_names_are_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^unknown method 'fpgn'; did you mean 'fpgm'\?$"):
        load_method("fpgn")


def test_a_method_in_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from transformable.methods import MethodResult\n"
        "from transformable.slimming.slim import slim\n"
        "def smallest(model, space, budget, context):\n"
        "    shape = space.smallest\n"
        "    cost = budget.cost(space, shape)\n"
        "    return MethodResult(shape=shape, model=slim(model, space, shape), cost=cost)\n"
    )
    model, space = network("resnet20")
    method = load_method(f"{tmp_path}/mine.py:smallest")
    found = method(model, space, Budget.of(0.5, space), context())
    assert found.shape == space.smallest
    with pytest.raises(ValueError, match=r"^method '.*/mine\.py:largest': .* has no function"):
        load_method(f"{tmp_path}/mine.py:largest")


def test_a_function_that_is_no_method_is_refused_before_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def net(num_classes, in_channels):\n    raise TypeError\n")
    with pytest.raises(
        ValueError, match=r"must take the arguments \(model, space, budget, context"
    ):
        load_method(f"{tmp_path}/mine.py:net")


def test_the_names_are_known_without_torch() -> None:
    code = "import sys; from transformable.methods import METHODS; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
