"""Budgets in milliseconds, with times by a made-up law: exact against going through all shapes."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from support.made_up_latency import made_up_latency
from support.networks import NETWORKS, few_shapes
from transformable.costing.budget import BandError, Budget, limit_of
from transformable.costing.corrections import Settled, settle
from transformable.costing.expected_cost import Expectation
from transformable.costing.latency import Surface
from transformable.searching.derive import derive
from transformable.settings import Residual


def made_up(name: str, residual: Residual) -> tuple[tas.Space, tas.SuperNet | nn.Module]:
    make: Callable[[], nn.Module]
    make, input_shape = NETWORKS.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    model = make()
    space = tas.Space.trace(model, input_shape, ratios=(0.5, 1.0), residual=residual)
    return few_shapes(space, 200), model


def random_probabilities(space: tas.Space) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {
        name: torch.randn(len(sizes), generator=generator, dtype=torch.float64).softmax(0)
        for name, sizes in space.candidates.items()
    }


def all_shapes(space: tas.Space, p: dict[str, Tensor]) -> list[tuple[float, tas.Shape]]:
    """Every shape with its log-probability."""
    found = []
    for at in itertools.product(*(range(len(sizes)) for sizes in space.candidates.values())):
        picks = dict(zip(space.candidates, at, strict=True))
        log = sum(float(p[name][i].log()) for name, i in picks.items())
        found.append((log, space.shape_at(picks)))
    return found


def settled(p: dict[str, Tensor], space: tas.Space, budget: Budget) -> Settled:
    def find(budget: Budget) -> tas.Shape:
        return derive(p, space, budget).shape

    return settle(find(budget), find, space, budget)


CASES = [
    ("resnet20", "pad"),
    ("resnet20", "project"),
    ("mobilenet_v2", "pad"),
    # two calls of one module; sums of widths; a stream that is padded; branches
    *((name, "pad") for name in ("reused relu", "densenet", "padded resnet", "branches")),
]


@pytest.mark.parametrize(("name", "residual"), CASES)
def test_the_expected_latency_and_the_most_probable_shape(name: str, residual: Residual) -> None:
    space, model = made_up(name, residual)
    latency = made_up_latency(model, space)
    p = random_probabilities(space)
    shapes = all_shapes(space, p)
    costs = np.array([latency.cost(space, shape) for _, shape in shapes])
    logs = np.array([log for log, _ in shapes])
    expected = float(Expectation(space).latency(p, latency))
    assert expected == pytest.approx(float(np.exp(logs) @ costs), rel=1e-6)  # whole nanoseconds
    low, high = latency.bounds(space)
    assert low <= costs.min() <= costs.max() <= high
    for part in (0.2, 0.5, 0.8):
        value = costs.min() + part * (costs.max() - costs.min())
        budget = Budget(metric="latency", value=value, low=0, high=0, latency=latency).within(0.02)
        inside = (costs >= budget.low) & (costs <= budget.high)
        if not inside.any():
            with pytest.raises(BandError, match=f"no shape of this network has {budget.band}"):
                derive(p, space, budget)
            continue
        derived = derive(p, space, budget)
        assert budget.low <= derived.cost <= budget.high
        assert derived.cost == latency.cost(space, derived.shape)
        assert derived.log_probability == pytest.approx(logs[inside].max(), abs=1e-3)


def test_the_smallest_shape_need_not_be_the_fastest() -> None:
    model = tas.models.build("resnet20")
    space = tas.Space.trace(
        model, (3, 16, 16), ratios=(0.35, 0.5)
    )  # of the latter all are multiples of 4
    latency = made_up_latency(model, space)
    slow = [
        replace(part, unaligned=replace(part.surface, times=5 * part.surface.times))
        if part.unaligned is not None
        else part
        for part in latency.parts
    ]
    latency = replace(latency, parts=slow)
    aligned = space.shape_at(
        {n: len(c) - 1 for n, c in space.candidates.items() if n in space.widths}
        | dict.fromkeys(space.depths, 0)
    )
    fastest = latency.cost(space, aligned)
    assert fastest < latency.cost(space, space.smallest)
    assert latency.bounds(space)[0] <= fastest
    budget = Budget.of(f"{fastest}ns", space, metric="latency", latency=latency)
    assert derive(random_probabilities(space), space, budget).cost <= budget.high
    assert limit_of(f"{fastest}ns", space, "latency", latency).high == fastest


def test_both_limits_hold_and_the_second_costs_probability() -> None:
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    p = random_probabilities(space)
    shapes = all_shapes(space, p)
    budget = Budget.of(0.9, space, tolerance=0.08)
    alone = derive(p, space, budget)
    share = (latency.cost(space, alone.shape) - 1) / latency.full
    limit = limit_of(f"{share:.9f}", space, "latency", latency)
    both = replace(budget, at_most=(limit,))
    allowed = [
        log
        for log, shape in shapes
        if budget.holds(tas.macs(space, shape)) and latency.cost(space, shape) <= limit.high
    ]
    derived = derive(p, space, both)
    assert derived.log_probability < alone.log_probability
    assert derived.log_probability == pytest.approx(max(allowed), abs=1e-3)
    assert not both.exceeded(space, derived.shape)
    assert both.exceeded(space, alone.shape).endswith(" ms are allowed")
    assert both.target()["at_most"] == {"latency": limit.high / 1e6}


def test_bilinear_between_and_straight_beyond() -> None:
    surface = Surface((4, 8), (2, 4, 8), np.array([[1.0, 3.0, 5.0], [2.0, 7.0, 9.0]]))
    expected = [[1.0, 3.0, 6.0], [1.5, 5.0, 8.0], [2.5, 9.0, 12.0]]
    assert surface.at((4, 6, 10), (2, 4, 10)).tolist() == expected
    assert Surface.from_dict(surface.to_dict()).at([5], [3]) == surface.at([5], [3])


def test_budgets_in_milliseconds() -> None:
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    half = Budget.of("0.9", space, metric="latency", latency=latency)
    assert half.value == 0.9 * latency.full
    time = f"{0.9 * latency.full / 1e6:.9f}ms"
    assert Budget.of(time, space, metric="latency", latency=latency).value == pytest.approx(
        half.value
    )
    assert half.target()["value"] == half.value / 1e6
    assert half.target()["conditions"] == "torch at batch 1, 1 thread, on nowhere"
    for amount, metric, message in (
        ("3ms", "macs", "3ms is not a number of MACs; use --metric latency"),
        ("20M", "latency", "20M is not a time; write one, such as 3ms"),
        (
            "1us",
            "latency",
            "a budget of 1us is 0.001 ms, and this network can take about .* ms",
        ),
        ("3 ns ms", "latency", "a budget is a fraction"),
    ):
        with pytest.raises(ValueError, match=message):
            Budget.of(amount, space, metric=metric, latency=latency)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="latency needs times that were measured"):
        Budget.of("0.5", space, metric="latency")


def test_what_is_measured_corrects_the_times() -> None:
    """A machine that takes 1.3 times what the table says is met at the second attempt."""
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 16, 16), ratios=(0.5, 1.0))
    latency = made_up_latency(model, space)
    p = random_probabilities(space)
    measured: list[tas.Shape] = []

    def timer(shape: tas.Shape) -> float:
        measured.append(shape)
        return 1.3 * latency.cost(space, shape)

    timed = replace(latency, timer=timer)
    budget = Budget.of(0.8, space, metric="latency", latency=timed, tolerance=0.04)
    shape, cost, time = settled(p, space, budget)
    assert budget.holds(cost)
    assert cost == time
    assert cost == pytest.approx(1.3 * latency.cost(space, shape), abs=1)
    assert len(measured) == 2
    assert not budget.holds(1.3 * latency.cost(space, measured[0]))


def test_what_is_at_an_end_of_the_band_is_not_asked_for_again() -> None:
    """A method that finds the slowest network inside the band, and a machine on which that takes
    longer than the table says, by another share each time."""
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    generator = torch.Generator().manual_seed(0)
    shapes = [space.sample(generator) for _ in range(200)]
    seen: list[tas.Shape] = []

    def find(budget: Budget) -> tas.Shape:
        inside = [s for s in shapes if budget.holds(budget.cost(space, s))]
        if not inside:
            raise BandError("no network")
        return max(inside, key=lambda shape: budget.cost(space, shape))

    def timer(shape: tas.Shape) -> float:
        seen.append(shape)
        return (1.04 if len(seen) == 1 else 1.042) * latency.cost(space, shape)

    typical = sorted(latency.cost(space, shape) for shape in shapes)[100] / latency.full
    budget = Budget.of(typical, space, metric="latency", latency=replace(latency, timer=timer))
    _, cost, _ = settle(find(budget), find, space, budget)
    assert budget.holds(cost)
    assert len(seen) == 2


def test_a_time_close_to_an_end_of_the_band_is_corrected_too() -> None:
    """What is measured once more at the end would be outside of the band half of the time."""
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    budget = Budget.of(0.8, space, metric="latency", latency=latency)
    times = iter([budget.low + 1, budget.high - 1, 1.01 * budget.value])
    timed = replace(latency, timer=lambda shape: next(times))
    p = random_probabilities(space)
    _, cost, _ = settled(p, space, replace(budget, latency=timed))
    assert cost == round(1.01 * budget.value)


def limited(share: float, times: float) -> tuple[tas.Space, Budget, dict[str, Tensor]]:
    """A budget of MACs with a limit of time, on a machine that takes some times what is said."""
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    timed = replace(latency, timer=lambda shape: times * latency.cost(space, shape))
    limit = limit_of(str(share), space, "latency", timed)
    budget = Budget.of(0.9, space, tolerance=0.08, at_most=(limit,))
    return space, budget, random_probabilities(space)


def test_a_limit_of_time_beside_macs_is_measured_too() -> None:
    space, budget, p = limited(0.93, times=1.03)
    first = derive(p, space, budget).shape
    assert budget.timed is not None
    assert budget.timed.timer is not None
    [limit] = budget.at_most
    assert budget.timed.timer(first) > limit.high
    shape, cost, time = settled(p, space, budget)
    assert time == round(budget.timed.timer(shape))
    assert time <= limit.high
    assert cost == tas.macs(space, shape)
    assert budget.holds(cost)


def test_a_limit_of_time_that_is_never_met_is_refused() -> None:
    space, budget, p = limited(0.9, times=9)
    shape, _, time = settled(p, space, budget)
    assert budget.exceeded(space, shape, time).endswith(" ms are allowed")
    assert not budget.exceeded(space, shape)  # by the table


def test_a_limit_that_all_shapes_meet_is_refused() -> None:
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    with pytest.raises(ValueError, match=r"is no limit.*; a time has a unit, such as 3ms"):
        limit_of("3", space, "latency", latency)
    with pytest.raises(ValueError, match=r"at most 1,000,000,000 MACs is no limit"):
        limit_of("1G", space, "macs")


def test_a_promise_that_cannot_be_kept_ends_with_the_nearest() -> None:
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    timed = replace(latency, timer=lambda shape: 9.0 * latency.full)
    budget = Budget.of(0.9, space, metric="latency", latency=timed)
    p = random_probabilities(space)
    _, cost, _ = settled(p, space, budget)
    assert cost == round(9.0 * latency.full)
    assert not budget.holds(cost)


def test_a_limit_that_is_met_when_it_is_measured_is_met() -> None:
    """Where the times were corrected downwards, the table may say more than what is measured."""
    space, budget, p = limited(0.93, times=1.0)
    [limit] = budget.at_most
    slowest = max((shape for _, shape in all_shapes(space, p)), key=partial(limit.cost, space))
    assert budget.exceeded(space, slowest)
    assert not budget.exceeded(space, slowest, limit.high)
    assert budget.exceeded(space, slowest, limit.high + 1)


def test_the_times_are_corrected_four_times_and_every_shape_is_measured() -> None:
    space, model = made_up("resnet20", "pad")
    latency = made_up_latency(model, space)
    shapes = [space.sample(torch.Generator().manual_seed(i)) for i in range(9)]
    measured: list[tas.Shape] = []

    def timer(shape: tas.Shape) -> float:
        measured.append(shape)
        return (2.0 - 0.1 * len(measured)) * latency.full

    budget = Budget.of(0.9, space, metric="latency", latency=replace(latency, timer=timer))
    found = iter(shapes)
    shape, cost, _ = settle(next(found), lambda _: next(found), space, budget)
    assert measured == shapes[:5]
    assert next(found) == shapes[5]
    assert (shape, cost) == (shapes[4], round(1.5 * latency.full))
