"""The most probable shape inside the band, against going through all shapes."""

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from support.networks import NETWORKS, few_shapes
from transformable.costing.budget import Budget
from transformable.searching import derive as derive_module
from transformable.searching import integer_program
from transformable.searching.derive import check_possible, derive
from transformable.settings import Residual


def random_probabilities(space: tas.Space, seed: int, sharpness: float = 2.0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: (sharpness * torch.randn(len(sizes), generator=generator)).softmax(0)
        for name, sizes in space.candidates.items()
    }


def everything(space: tas.Space, probabilities: dict[str, Tensor]) -> list[tuple[float, tas.Shape]]:
    names = list(probabilities)
    return [
        (
            sum(float(probabilities[n][i].double().log()) for n, i in zip(names, at, strict=True)),
            space.shape_at(dict(zip(names, at, strict=True))),
        )
        for at in itertools.product(*(range(len(p)) for p in probabilities.values()))
    ]


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("name", ["resnet20", "resnet164", "mobilenet_v2", *NETWORKS])
def test_no_shape_in_the_band_is_more_probable(name: str, residual: Residual) -> None:
    make: Callable[[], nn.Module]
    make, input_shape = NETWORKS.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    space = tas.Space.trace(make(), input_shape, ratios=(0.5, 1.0), residual=residual)
    space = few_shapes(space, 800)
    probabilities = random_probabilities(space, seed=len(name))
    shapes = everything(space, probabilities)
    metrics: tuple[tuple[Any, Any], ...] = (("macs", tas.macs), ("params", tas.params))
    for metric, measure in metrics:
        costs = [measure(space, shape) for _, shape in shapes]
        for part in (0.1, 0.4, 0.7, 0.95):
            target = round(min(costs) + part * (max(costs) - min(costs)))
            low, high = round(0.97 * target), round(1.03 * target)
            budget = Budget(metric=metric, value=target, low=low, high=high)
            inside = [p for (p, _), cost in zip(shapes, costs, strict=True) if budget.holds(cost)]
            if not inside:
                with pytest.raises(ValueError, match="no shape of this network has"):
                    derive(probabilities, space, budget)
                continue
            found = derive(probabilities, space, budget)
            assert found.cost == measure(space, found.shape)
            assert budget.holds(found.cost)
            assert found.log_probability == pytest.approx(max(inside), rel=1e-3)
            best = max(p for p, _ in shapes)
            assert found.given_up == pytest.approx(best - found.log_probability, abs=1e-9)
            assert (found.how == "argmax") == (found.given_up < 1e-12)


def test_the_argmax_is_taken_where_it_is_inside() -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
    probabilities = random_probabilities(space, 3)
    top = space.shape_at({name: int(p.argmax()) for name, p in probabilities.items()})
    found = derive(probabilities, space, Budget.of(tas.macs(space, top), space))
    assert (found.shape, found.how, found.given_up) == (top, "argmax", 0.0)
    wide = Budget.of(0.9, space)
    assert derive(probabilities, space, wide).how == "constrained"


@pytest.mark.parametrize("sharpness", [0.01, 2.0])
@pytest.mark.parametrize(("name", "residual"), [("resnet56", "pad"), ("resnet110", "project")])
def test_deep_networks(name: str, residual: Residual, sharpness: float) -> None:
    space = tas.Space.trace(tas.models.build(name), (3, 32, 32), residual=residual)
    budget = Budget.of(0.4, space)
    assert budget.holds(derive(random_probabilities(space, 0, sharpness), space, budget).cost)


def test_the_solver_says_nothing_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
    for seed in range(3):
        derive(random_probabilities(space, seed), space, Budget.of(0.3, space))
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("amount", [0.15, 0.5, 0.95])
def test_a_budget_that_is_easily_met_is_checked_without_the_solver(
    residual: Residual, amount: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve(*_: object) -> None:
        raise AssertionError("the program was solved")

    monkeypatch.setattr(derive_module, "most_probable", solve)
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32), residual=residual)
    check_possible(space, Budget.of(amount, space, tolerance=0.01))


def test_a_solver_that_gives_up_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_program, "NODES", 0)
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
    budget = Budget(metric="macs", value=20_000_050, low=20_000_000, high=20_000_100)
    with pytest.raises(ValueError, match="the solver gave up after 0 nodes without a shape that"):
        derive(random_probabilities(space, 0), space, budget)


def test_what_the_solver_does_not_know_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_program, "NODES", 0)
    monkeypatch.setattr(derive_module, "PATHS", 0)
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32))
    with pytest.raises(ValueError, match=r"gave up after 0 nodes .* or fewer candidates$"):
        check_possible(space, Budget.of(0.5, space))
    wide = {name: torch.arange(len(c)).float().softmax(0) for name, c in space.candidates.items()}
    # one that has found a shape, but has not gone through all others
    monkeypatch.setattr(integer_program, "NODES", 1)
    with pytest.warns(UserWarning, match="stopped after 1 nodes: .*perhaps not the most probable"):
        found = derive(wide, space, Budget.of(0.5, space))
    assert Budget.of(0.5, space).holds(found.cost)


def test_a_hole_between_the_shapes_is_refused_with_what_is_near() -> None:
    space = tas.Space.trace(tas.models.build("resnet20"), (3, 32, 32), search="depth")
    costs = {
        tas.macs(space, space.full.replace(depths=dict(zip(space.depths, depths, strict=True))))
        for depths in itertools.product((1, 2, 3), repeat=3)
    }
    target = 0.71 * tas.macs(space, space.full)
    budget = tas.Budget.of(target, space, tolerance=0.01)
    assert not any(budget.holds(cost) for cost in costs)
    with pytest.raises(ValueError, match="use a larger tolerance or more candidates; a") as error:
        check_possible(space, budget)
    found = re.search(r"a shape with ([\d,]+) MACs is near", str(error.value))
    assert found
    cost = int(found[1].replace(",", ""))
    assert cost in costs
    assert abs(cost - target) < 0.1 * target
