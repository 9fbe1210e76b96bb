"""Budgets from the options of a command."""

import pytest

import transformable as tas
from transformable.cli.budgets import BudgetMaker
from transformable.cli.pruning_options import Prune

MODEL = tas.models.build("resnet20")
SPACE = tas.Space.trace(MODEL, (3, 16, 16))


@pytest.mark.parametrize(("divisor", "told"), [("auto", True), ("8", False)])
def test_a_divisor_that_was_chosen_is_named_where_a_budget_is_out_of_reach(
    divisor: str, told: bool
) -> None:
    maker = BudgetMaker(Prune(divisor=divisor), MODEL, SPACE)
    with pytest.raises(ValueError, match="this network can have") as caught:
        maker.make("0.001")
    assert ("--divisor auto chose the widths" in str(caught.value)) == told


def test_other_mistakes_are_not_put_down_to_it() -> None:
    maker = BudgetMaker(Prune(divisor="auto"), MODEL, SPACE)
    with pytest.raises(ValueError, match=r"a budget is a fraction .*, not '20X'$"):
        maker.make("20X")
