"""LCCL: gates beside convolutions, and what the network costs on the images that it is given."""

import copy
import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import AND_MOBILENET, randomise
from support.searches import alternating_search
from transformable.costing.budget import BandError, Budget
from transformable.costing.cost import macs
from transformable.data import Dataset, from_tensors
from transformable.layers import initialise
from transformable.methods import lccl as module
from transformable.methods.interface import Context
from transformable.methods.lccl import (
    GatedConv,
    add_gates,
    cost_range,
    lccl,
    measured_cost,
    meet_budget,
    set_thresholds,
)
from transformable.settings import Training
from transformable.tracing.space import Space
from transformable.training.session import Session
from transformable.training.train import train


def images(count: int = 48, size: int = 16, channels: int = 3) -> Dataset:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(count, channels, size, size, generator=generator)
    y = torch.arange(count) % 4
    return from_tensors((x, y), (x, y), validation=0.25)


def context(seed: int = 0) -> Context:
    return Context(
        dataset=images(),
        searching=alternating_search(epochs=1, batch_size=12),
        session=Session(seed=seed),
    )


def network(name: str) -> tuple[nn.Module, Space]:
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    make, input_shape = AND_MOBILENET.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    model = randomise(make())
    return model, Space.trace(model, input_shape)


def tiny() -> tuple[nn.Sequential, Space]:
    """Images of 1 x 5 x 5; the second convolution makes 3 x 3 positions, and so does the third."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 1), nn.ReLU(),
        nn.Conv2d(4, 5, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(5, 7, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 4),
    )  # fmt: skip
    return model, Space.trace(model, (1, 5, 5))


def gates(model: nn.Module) -> dict[str, GatedConv]:
    return {name: part for name, part in model.named_modules() if isinstance(part, GatedConv)}


def set_all(model: nn.Module, threshold: float) -> nn.Module:
    for gate in gates(model).values():
        gate.threshold.fill_(threshold)
    return model


def by_hand(gate: GatedConv, x: Tensor) -> tuple[Tensor, int]:
    """What a gate gives for one image, position by position, and the MACs that it spends."""
    conv, low, norm = gate.conv, gate.low, gate.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    (kernel, _), (stride, _) = conv.kernel_size, conv.stride
    padded = F.pad(x, [int(conv.padding[0])] * 4)
    side = (padded.shape[-1] - kernel) // stride + 1
    out, spent = torch.zeros(conv.out_channels, side, side), 0
    for i, j in itertools.product(range(side), repeat=2):
        window = padded[:, i * stride : i * stride + kernel, j * stride : j * stride + kernel]
        response = (window * low.weight[0]).sum() - norm.running_mean[0]
        response = response / (norm.running_var[0] + norm.eps).sqrt() - gate.threshold
        spent += window.numel()
        if response > 0:
            assert conv.bias is not None
            values = (window * conv.weight).sum((1, 2, 3)) + conv.bias
            out[:, i, j] = values * min(1.0, float(response))
            spent += window.numel() * conv.out_channels
    return out, spent


def test_the_measured_cost_is_a_count_of_computed_positions() -> None:
    model, space = tiny()
    gated = add_gates(model, space).eval()
    one, two = gates(gated).values()
    for gate, mean, threshold in ((one, 0.2, 0.1), (two, 0.1, -0.05)):
        gate.low.weight.data.normal_()
        assert gate.norm.running_mean is not None
        assert gate.norm.running_var is not None
        gate.norm.running_mean.fill_(mean)
        gate.norm.running_var.fill_(0.7)
        gate.threshold.fill_(threshold)
    split = images(40, size=5, channels=1).train
    [(x, _)] = split.ordered(len(split))
    total, outputs = 0, []
    with torch.no_grad():
        for image in x:
            values = F.relu(F.conv2d(image[None], model[0].weight, model[0].bias)[0])  # type: ignore[arg-type]
            total += 4 * 25
            for gate in (one, two):
                values, spent = by_hand(gate, values)
                values = values.relu()
                total += spent
            outputs.append(model[8](values.mean((1, 2))))
            total += (7 + 1) * 4
        torch.testing.assert_close(gated(x), torch.stack(outputs), rtol=1e-4, atol=1e-5)
    assert measured_cost(gated, space, split) == round(total / len(split))
    closed = 4 * 25 + (9 * 4 + 5) * 9 + 8 * 4
    assert closed < total / len(split) < cost_range(gated, space)[1]
    assert cost_range(gated, space)[0] == closed


def test_all_open_is_the_network_and_the_low_cost_layers_all_closed_these_alone() -> None:
    model, space = network("resnet20")
    gated = add_gates(model, space)
    split = images(12).train
    low = sum(c * 9 * p for c, p in [(16, 256)] * 6 + [(16, 64)] + [(32, 64)] * 5)
    low += sum(c * 9 * p for c, p in [(32, 16)] + [(64, 16)] * 5)
    convs = 6 * 16 * 16 * 9 * 256 + (16 + 32 * 5) * 32 * 9 * 64 + (32 + 64 * 5) * 64 * 9 * 16
    full = macs(space, space.full)
    assert measured_cost(set_all(gated, -1e9), space, split) == full + low
    assert measured_cost(set_all(gated, 1e9), space, split) == full + low - convs
    assert cost_range(gated, space) == (full + low - convs, full + low)


def test_gates_stand_beside_all_but_the_first_and_the_cheap() -> None:
    model, space = network("resnet20")
    blocks = itertools.product(range(3), range(3), (1, 2))
    expected = [f"stages.{stage}.{block}.conv{i}" for stage, block, i in blocks]
    assert list(gates(add_gates(model, space))) == expected
    narrow = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 3, 1), nn.Flatten(), nn.Linear(48, 4))
    with pytest.raises(ValueError, match="4 channels or more after the first; there are none"):
        add_gates(narrow, Space.trace(narrow, (3, 4, 4)))


@pytest.mark.parametrize("options", [{"stride": 2}, {"dilation": 2, "padding_mode": "circular"}])
def test_a_gate_multiplies(options: dict[str, int]) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 6, 3, padding=1, **options)  # type: ignore[arg-type]
    state = torch.get_rng_state()
    gated = GatedConv(conv).eval()
    assert torch.equal(torch.get_rng_state(), state)
    torch.testing.assert_close(gated.low.weight[0], conv.weight.abs().mean(0))
    gated.low.weight.data.normal_(0, 0.3)
    x = torch.randn(2, 3, 8, 8)
    twin = copy.deepcopy(conv)
    twin.weight, twin.bias = gated.low.weight, None
    gate = twin(x) / (1 + gated.norm.eps) ** 0.5 - 0.3
    gated.threshold.fill_(0.3)
    assert 0 < (gate > 1).sum() < (gate > 0).sum() < gate.numel()
    torch.testing.assert_close(gated(x), conv(x) * gate.clamp(0, 1))


def test_a_higher_threshold_costs_less() -> None:
    model, space = tiny()
    gated = add_gates(model, space)
    first, second = gates(gated).values()
    split = images(40, size=5, channels=1).train
    set_thresholds(gated, 0.5, split)
    second.threshold.fill_(-1e9)
    costs = []
    for threshold in torch.linspace(-2, 2, 13):
        first.threshold.fill_(threshold)
        costs.append(measured_cost(gated, space, split))
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) > 8


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_gates_let_a_share_of_the_positions_pass(share: float) -> None:
    model, space = network("pre-activation")
    gated = add_gates(model, space)
    split = images(20).train
    set_thresholds(gated, share, split)
    assert gated.training
    smallest, largest = cost_range(gated, space)
    cost = measured_cost(gated, space, split)
    assert gated.training
    assert cost == pytest.approx(smallest + share * (largest - smallest), rel=0.03)
    assert not any(gate.norm._forward_hooks for gate in gates(gated).values())


def test_a_share_to_the_position() -> None:
    model, space = tiny()
    gated = add_gates(model, space)
    split = images(40, size=5, channels=1).train
    [(x, _)] = split.ordered(len(split))
    gate = gates(gated)["2"]
    count = len(x) * 9
    for opened in (1, 100, count - 1):
        set_thresholds(gated, opened / count, split)
        gated.eval()
        response = gate.norm(gate.low(gated[1](gated[0](x))))  # type: ignore[index]
        assert int((response > gate.threshold).sum()) == opened


@pytest.mark.parametrize("name", ["resnet20", "vgg", "small mobilenet", "densenet", "branches"])
def test_half_of_the_cost(name: str) -> None:
    model, space = network(name)
    model.eval()
    before = copy.deepcopy(model.state_dict())
    settings, budget = context(), Budget.of(0.5, space)
    state = torch.get_rng_state()
    found = lccl(model, space, budget, settings)
    assert torch.equal(torch.get_rng_state(), state)
    assert budget.holds(found.cost)
    assert found.cost == measured_cost(found.model, space, settings.dataset.validation)
    assert found.shape == space.full
    assert found.notes["measured"] is True
    smallest, largest = cost_range(found.model, space)
    assert found.notes["share"] == (found.cost - smallest) / (largest - smallest)
    assert not found.model.training
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key])


def test_a_network_that_is_trained_further_settles_again() -> None:
    model, space = network("vgg")
    settings, budget = context(), Budget.of(0.6, space)
    found = lccl(model, space, budget, settings)
    assert found.restore_budget is not None
    for fresh in (False, True):
        further = copy.deepcopy(found.model)
        torch.manual_seed(3)
        if fresh:
            initialise(further)
        train(further, settings.dataset, Training(epochs=1, batch_size=12))
        cost = found.restore_budget(further, budget)
        assert budget.holds(cost)
        assert cost == measured_cost(further, space, settings.dataset.validation)
        # the band that counts is the one that is given then
        closed = replace(budget, low=1, high=2)
        with pytest.raises(BandError, match="lccl finds no threshold with 1 to 2 MACs, only one"):
            found.restore_budget(further, closed)


def test_the_state_goes_round() -> None:
    model, space = network("vgg")
    found = lccl(model, space, Budget.of(0.6, space), context())
    again = add_gates(model, space).train(found.model.training)
    again.load_state_dict(found.model.state_dict())
    split = images(20).test
    [(x, _)] = split.ordered(len(split))
    assert torch.equal(again.eval()(x), found.model.eval()(x))
    assert measured_cost(again, space, split) == measured_cost(found.model, space, split)


def test_both_convolutions_learn() -> None:
    model, space = tiny()
    gated = add_gates(model, space).train()
    gated(torch.rand(6, 1, 5, 5)).square().sum().backward()
    for gate in gates(gated).values():
        for conv in (gate.conv, gate.low):
            assert conv.weight.grad is not None
            assert conv.weight.grad.abs().sum() > 0


def test_a_seed_says_all() -> None:
    model, space = network("vgg")
    budget = Budget.of(0.6, space)
    one, same, other = (lccl(model, space, budget, context(seed)) for seed in (0, 0, 1))
    assert one.cost == same.cost
    state = same.model.state_dict()
    for key, tensor in one.model.state_dict().items():
        assert torch.equal(tensor, state[key])
    weight = "features.4.low.weight"
    assert not torch.equal(one.model.state_dict()[weight], other.model.state_dict()[weight])


def test_many_positions_of_one_response() -> None:
    """Half of each image is empty: there no threshold lets a part of the positions pass."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 1, bias=False), nn.ReLU(), nn.Conv2d(4, 8, 1), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    space = Space.trace(model, (1, 8, 8))
    gated = add_gates(model, space)
    x = torch.rand(40, 1, 8, 8)
    x[:, :, :4] = 0
    split = from_tensors((x, torch.arange(40) % 4), (x, torch.arange(40) % 4)).train
    budget = Budget.of(0.8, space)
    meet_budget(gated, space, budget, split)
    assert budget.holds(measured_cost(gated, space, split))


def test_a_cost_that_jumps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A straight line through one point would go to and fro for ever."""
    model, space = network("resnet20")
    gated = add_gates(model, space)
    smallest, largest = cost_range(gated, space)
    budget = Budget.of(0.5, space)
    shares = []

    def opened(_: nn.Module, share: float, *__: object) -> None:
        shares.append(share)

    def cost(*_: object) -> int:
        steep = min(1.0, max(0.0, 20 * (shares[-1] - 0.6)))
        return round(smallest + steep * (largest - smallest))

    monkeypatch.setattr(module, "set_thresholds", opened)
    monkeypatch.setattr(module, "measured_cost", cost)
    meet_budget(gated, space, budget, images().train)
    assert abs(cost() - budget.value) <= (budget.high - budget.low) / 20
    assert len(shares) < 15


def test_what_is_not_possible() -> None:
    model, space = network("resnet20")
    with pytest.raises(
        ValueError, match="saves neither parameters nor time on a processor; use --metric macs"
    ):
        lccl(model, space, Budget.of(0.5, space, metric="params"), context())
    smallest, _ = cost_range(add_gates(model, space), space)
    budget = Budget(metric="macs", value=smallest - 1, low=1, high=smallest)
    with pytest.raises(ValueError, match=f"this network can have {smallest:,} to "):
        lccl(model, space, budget, context())
