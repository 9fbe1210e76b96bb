import pytest
from torch import nn

import transformable as tas
from transformable.costing.budget import Budget

SPACE = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
FULL = 40_813_194


@pytest.mark.parametrize(
    ("amount", "value"),
    [
        ("0.5", FULL / 2),
        (0.5, FULL / 2),
        ("50%", FULL / 2),
        ("20M", 20e6),
        ("20000k", 20e6),
        ("0.02G", 20e6),
        (20_000_000, 20e6),
        (1, FULL),
    ],
)
def test_fractions_and_numbers(amount: str | float, value: float) -> None:
    assert Budget.of(amount, SPACE).value == pytest.approx(value)


def test_the_band_is_as_wide_as_the_tolerance() -> None:
    budget = Budget.of("20M", SPACE, tolerance=0.1)
    assert (budget.low, budget.high) == (18_000_000, 22_000_000)
    assert [budget.holds(c) for c in (17_999_999, 18_000_000, 22_000_000, 22_000_001)] == [
        False,
        True,
        True,
        False,
    ]


def test_parameters() -> None:
    budget = Budget.of(0.5, SPACE, metric="params")
    assert budget.value == 272_282 / 2
    assert budget.cost(SPACE, SPACE.full) == 272_282
    assert budget.target() == {"metric": "params", "value": 136141.0, "low": 129334, "high": 142948}


def test_a_budget_out_of_reach_says_what_is_possible() -> None:
    smallest = tas.macs(SPACE, SPACE.smallest)
    for amount in (smallest - 1, "0.001", "1.01", "41M"):
        with pytest.raises(
            ValueError, match=rf"can have {smallest:,} to {FULL:,} MACs \(0.0.* to 1.000\)"
        ):
            Budget.of(amount, SPACE)
    assert Budget.of(smallest, SPACE).value == smallest
    with pytest.raises(ValueError, match=r"to 1.000\); smaller --ratios may reach lower$"):
        Budget.of(0.001, SPACE)
    with pytest.raises(ValueError, match=r"to 1.000\)$"):
        Budget.of(1.01, SPACE)


def test_a_network_that_may_grow_can_have_more_than_it_has() -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32), ratios=(0.5, 1.0, 1.5))
    assert Budget.of(1.5, space).value == 1.5 * FULL


@pytest.mark.parametrize("amount", ["", "half", "-1", "0", "1.2.3", "20X", "nan"])
def test_what_is_not_a_budget(amount: str) -> None:
    with pytest.raises(
        ValueError, match=r"a budget is a fraction \(0.5\), a number \(20M, .* or a time"
    ):
        Budget.of(amount, SPACE)


def test_unknown_metric_and_tolerance() -> None:
    with pytest.raises(
        ValueError, match="metric must be one of macs, params, latency, not 'flops'"
    ):
        Budget.of(0.5, SPACE, metric="flops")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tolerance must be above 0 and below 1, not 0"):
        Budget.of(0.5, SPACE, tolerance=0)


def test_a_network_in_which_nothing_may_change_says_why() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    model[0].register_forward_hook(lambda module, x, output: output.flip(1))
    space = tas.Space.trace(model, (3, 4, 4))
    with pytest.raises(ValueError, match=r"^nothing in this network may change: '0' is fixed be"):
        tas.Budget.of(0.5, space)
    with pytest.raises(ValueError, match="it has no layers between its input and its output"):
        tas.Budget.of(0.5, tas.Space.trace(nn.Conv2d(3, 2, 1), (3, 4, 4)))


def test_a_network_without_stages_has_no_depth_to_search() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    with pytest.raises(
        ValueError,
        match="each layer has one candidate width, and there is no stage of repeated blocks",
    ):
        tas.Budget.of(0.5, tas.Space.trace(model, (3, 4, 4), search="depth"))


def test_all_kinds_of_reasons_are_named() -> None:
    first, second = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 6, 1)
    model = nn.Sequential(first, nn.Softmax(1), second, nn.ReLU(), nn.Conv2d(6, 2, 1))
    second.register_forward_hook(lambda module, x, output: output.flip(1))
    space = tas.Space.trace(model, (3, 4, 4))
    with pytest.raises(
        ValueError,
        match=r"^nothing in this network may change: '0' is fixed be"
        r"cause '1' is over the channels; '2' is fixed because '2' has a hook",
    ):
        tas.Budget.of(0.5, space)
