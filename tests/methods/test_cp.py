"""Channel pruning: the choice by LASSO, the reconstruction by least squares, whole networks."""

import copy
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso
from torch import Tensor, nn

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from support.networks import AND_MOBILENET, PaddedResNet, randomise
from support.searches import alternating_search
from transformable.costing.budget import Budget
from transformable.data import from_tensors
from transformable.methods import cp as module
from transformable.methods._reconstruction import lasso_problem, least_squares, ranking, windows
from transformable.methods.cp import Pruning, cp
from transformable.methods.interface import Context
from transformable.settings import Metric, Residual
from transformable.slimming.slim import slim
from transformable.tracing.channel_groups import ChannelGroups
from transformable.tracing.space import Space
from transformable.training.session import Session


def random(*size: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def context(seed: int = 0, count: int = 32, size: int = 16) -> Context:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, size, size, generator=generator)
    labels = torch.arange(count) % 10
    dataset = from_tensors((images, labels), (images, labels), validation=0.25)
    return Context(
        dataset=dataset, searching=alternating_search(epochs=1), session=Session(seed=seed)
    )


def network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    make, input_shape = AND_MOBILENET.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    return randomise(make()), input_shape


def added(X: Tensor, W: Tensor, channel: Tensor, c: int) -> Tensor:
    """What a channel adds, written out."""
    return (X[:, channel == c] @ W[channel == c]).flatten()


def error(X: Tensor, Y: Tensor, W: Tensor, columns: Tensor) -> float:
    """What is missing of Y after the reconstruction from some columns."""
    found = least_squares(X[:, columns], Y, W[columns], 0.0)
    return float((Y - X[:, columns] @ found).square().sum())


def test_the_problem_is_that_of_the_written_out_channels() -> None:
    X, W, Y = random(7, 600), random(600, 3, seed=1), random(7, 3, seed=2)
    channel = torch.arange(600) % 6 - 1
    gram, correlation = lasso_problem(X, Y, W, channel, 5)
    parts = torch.stack([added(X, W, channel, c) for c in range(5)])
    rest = Y.flatten() - added(X, W, channel, -1)
    assert torch.allclose(gram, parts @ parts.T)
    assert torch.allclose(correlation, parts @ rest)


@pytest.mark.parametrize("seed", [0, 1, 30, 35])
def test_the_choice_is_that_of_the_lasso_as_lambda_rises(seed: int) -> None:
    """Against coordinate descent on the written out problem, lambda raised in small steps."""
    # channels that are much alike: with the last two seeds some leave the path again
    X = random(40, 8, seed=seed) + 2 * random(40, 1, seed=seed + 50)
    y = X @ random(8, seed=seed + 100)
    kept = {}
    for alpha in np.geomspace(1e-3, 1e2, 400)[::-1]:
        solver = Lasso(alpha=alpha, fit_intercept=False, tol=1e-8, max_iter=100_000)
        coefficients = solver.fit(X.numpy(), y.numpy()).coef_
        # smaller lambdas come later: the last one counts, as if lambda rose
        for count in range(np.count_nonzero(coefficients), 9):
            kept[count] = set(np.flatnonzero(coefficients))
    for count in range(1, 8):
        order = ranking(X.T @ X, X.T @ y, count)
        assert sorted(order) == list(range(8))
        assert set(order[: len(kept[count])]) == kept[count]


def test_of_channels_that_say_the_same_one_is_kept_and_nothing_is_lost() -> None:
    base, weights = random(50, 4, 2), random(4, 2, 3, seed=1)
    # channel 4 + c is channel c again, with twice its weights; 8 is always 0
    X = torch.cat([base, base, torch.zeros(50, 1, 2)], 1).flatten(1)
    W = torch.cat([weights, 2 * weights, torch.ones(1, 2, 3)]).flatten(0, 1)
    channel = torch.arange(9).repeat_interleave(2)
    gram, correlation = lasso_problem(X, X @ W, W, channel, 9)
    order = ranking(gram, correlation, 4)
    assert set(order[:4]) == {4, 5, 6, 7}
    columns = torch.isin(channel, torch.tensor(order[:4]))
    assert error(X, X @ W, W, columns) == pytest.approx(0, abs=1e-20)
    fewer = torch.isin(channel, torch.tensor(order[:3]))
    assert error(X, X @ W, W, fewer) > 1


def test_the_chosen_channels_reconstruct_better_than_random_ones() -> None:
    better = []
    for seed in range(5):
        base = random(300, 12, 2, seed=seed)
        mixed = torch.einsum("rck,cd->rdk", base, random(12, 12, seed=seed + 20)).relu()
        X, W = mixed.flatten(1), random(24, 6, seed=seed + 40)
        channel = torch.arange(12).repeat_interleave(2)
        chosen = ranking(*lasso_problem(X, X @ W, W, channel, 12), 6)[:6]
        ours = error(X, X @ W, W, torch.isin(channel, torch.tensor(chosen)))
        generator = torch.Generator().manual_seed(seed)
        for _ in range(100):
            subset = torch.randperm(12, generator=generator)[:6]
            better.append(ours <= error(X, X @ W, W, torch.isin(channel, subset)))
    assert sum(better) / len(better) > 0.9


def test_least_squares_is_that_of_numpy() -> None:
    X, Y, W = random(20, 6), random(20, 3, seed=1), random(6, 3, seed=2)
    solution = np.linalg.lstsq(X.numpy(), Y.numpy())[0]
    assert np.allclose(least_squares(X, Y, W, 0.0), solution)


def test_with_few_rows_the_weights_change_as_little_as_they_can() -> None:
    X, Y, W = random(4, 9), random(4, 3, seed=1), random(9, 3, seed=2)
    change = np.linalg.lstsq(X.numpy(), (Y - X @ W).numpy())[0]
    assert np.allclose(least_squares(X, Y, W, 0.0), W.numpy() + change)


@pytest.mark.parametrize("rows", [4, 20])
def test_the_ridge_pulls_to_the_weights_as_they_were(rows: int) -> None:
    X, Y, W = random(rows, 9), random(rows, 3, seed=1), random(9, 3, seed=2)
    weight = 0.3 * float(X.square().sum()) / 9
    # the penalty as further rows
    further = torch.cat([X, weight**0.5 * torch.eye(9)]), torch.cat([Y, weight**0.5 * W])
    solution = np.linalg.lstsq(further[0].numpy(), further[1].numpy())[0]
    assert np.allclose(least_squares(X, Y, W, 0.3), solution)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(3, 5, 3, padding=1, bias=False),
        nn.Conv2d(3, 5, (3, 1), stride=(2, 3), padding=(1, 0), dilation=(2, 1), bias=False),
        nn.Conv2d(3, 5, 4, padding="same", bias=False),
        nn.Conv2d(3, 5, 3, padding=2, padding_mode="reflect", bias=False),
        nn.Conv2d(3, 5, 1, stride=2, bias=False),
    ],
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_windows_times_weights_are_the_outputs(conv: nn.Conv2d) -> None:
    conv.double()
    x = random(2, 3, 7, 10)
    out = conv(x)
    places = torch.tensor([[0, 3, out[0, 0].numel() - 1], [2, 1, 0]])
    made = windows(conv, x, places, out.shape[3]) @ conv.weight.flatten(1).T
    expected = torch.stack([out[n].flatten(1)[:, p] for n in range(2) for p in places[n]])
    assert torch.allclose(made, expected)


class Doubled(nn.Module):
    """Every second channel is twice the one before it, and read alike: half of them say it all."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 12, 3, stride=2)
        self.fc = nn.Linear(12 * 9, 4)
        with torch.no_grad():
            for conv in (self.a, self.b):
                conv.weight[1::2] = 2 * conv.weight[::2]
                assert conv.bias is not None
                conv.bias[1::2] = 2 * conv.bias[::2]
            self.b.weight[:, 1::2] = self.b.weight[:, ::2]
            pixels = self.fc.weight.view(4, 12, 9)
            pixels[:, 1::2] = pixels[:, ::2]

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.b(self.a(x).relu()).relu().flatten(1))  # type: ignore[no-any-return]


def test_a_network_of_doubled_channels_computes_the_same_with_half_of_them() -> None:
    torch.manual_seed(0)
    model = Doubled()
    space = Space.trace(model, (3, 8, 8))
    budget = Budget.of(tas.macs(space, tas.Shape({"a": 4, "b": 6})), space, tolerance=0.01)
    found = cp(model, space, budget, context(count=400, size=8))
    assert [c // 2 for c in found.shape.channels["a"]] == list(range(4))
    assert [c // 2 for c in found.shape.channels["b"]] == list(range(6))
    x = torch.rand(50, 3, 8, 8, generator=torch.Generator().manual_seed(9))
    whole = model(x)
    off = (found.model(x) - whole).square().mean()
    naive = (slim(model, space, found.shape)(x) - whole).square().mean()
    assert off < 1e-4 * naive


@pytest.mark.parametrize("name", ["pre-activation", "branches", "vgg"])
def test_where_nothing_goes_the_weights_stay(name: str) -> None:
    """Targets and inputs are of the same images, places and channels, in the same order."""
    model, input_shape = network(name)
    space = Space.trace(model, input_shape)
    found = cp(model, space, Budget.of(1.0, space, tolerance=0.001), context())
    assert found.shape.widths == space.full.widths
    for (key, new), (_, old) in zip(
        found.model.state_dict().items(), model.state_dict().items(), strict=True
    ):
        assert torch.allclose(new, old, atol=1e-4), key


def test_layers_that_lose_inputs_come_nearer_to_what_they_made() -> None:
    model, input_shape = network("pre-activation")
    model.eval()
    space = Space.trace(model, input_shape)
    found = cp(model, space, Budget.of(0.5, space), context(count=200))
    x = torch.rand(50, *input_shape, generator=torch.Generator().manual_seed(9))
    whole = model(x)
    off = (found.model(x) - whole).square().mean()
    naive = (slim(model, space, found.shape)(x) - whole).square().mean()
    assert off < 0.2 * naive


def check(
    model: nn.Module, space: Space, metric: Metric, share: float, given: Context
) -> tas.methods.MethodResult:
    budget = Budget.of(share, space, metric=metric)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    found = cp(model, space, budget, given)
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(not module._forward_pre_hooks for module in model.modules())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert budget.holds(found.cost)
    assert found.cost == budget.cost(space, found.shape)
    assert found.model.training
    counted = counted_macs if metric == "macs" else lambda small, _: counted_params(small)
    assert found.cost == counted(found.model, space.input_shape)
    assert all(not module._forward_pre_hooks for module in found.model.modules())
    assert found.model(torch.rand(2, *space.input_shape)).isfinite().all()
    return found


@pytest.mark.parametrize(
    ("name", "residual", "metric", "share"),
    [
        ("resnet20", "pad", "macs", 0.5),
        ("vgg", "pad", "params", 0.5),
        ("densenet", "pad", "macs", 0.5),
        ("branches", "tied", "params", 0.5),
        ("squeeze-and-excite", "project", "macs", 0.5),
        ("pre-activation", "tied", "params", 0.3),
        ("padded resnet", "project", "params", 0.4),
        ("small mobilenet", "pad", "macs", 0.6),
    ],
)
def test_any_network_ends_inside_the_budget(
    name: str, residual: Residual, metric: Metric, share: float
) -> None:
    model, input_shape = network(name)
    check(model, Space.trace(model, input_shape, residual=residual), metric, share, context())


def test_where_the_cost_depends_on_the_channels_the_widths_are_solved_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    model = PaddedResNet(blocks=1)
    space = Space.trace(model, (3, 16, 16))
    shapes: list[tas.Shape] = []
    run = Pruning.run

    def recorded(self: Pruning, choice: module.Choice) -> None:
        run(self, choice)
        shapes.append(self.shape)

    monkeypatch.setattr(Pruning, "run", recorded)
    budget = Budget.of(0.25, space, tolerance=0.01)
    found = cp(model, space, budget, context())
    first, second = shapes
    assert not budget.holds(budget.cost(space, first))
    assert found.shape == second
    assert budget.holds(found.cost)
    # the same channels, but for those that come or go with the widths
    for name, chosen in first.channels.items():
        assert set(chosen) <= set(second.channels[name]) or set(second.channels[name]) <= set(
            chosen
        )


def test_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS", 300)  # not all places
    model, input_shape = network("vgg")
    space = Space.trace(model, input_shape)
    budget = Budget.of(0.5, space)
    one, same, other = (cp(model, space, budget, context(seed)) for seed in (1, 1, 2))
    weights = [found.model.state_dict()["features.4.weight"] for found in (one, same, other)]
    assert one.shape == same.shape
    assert torch.equal(weights[0], weights[1])
    assert weights[0].shape == weights[2].shape
    assert not torch.equal(weights[0], weights[2])


def test_large_images_are_few_and_layers_are_seen_at_so_many_places() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3), nn.Flatten())
    space = Space.trace(model, (3, 80, 80))
    images, labels = torch.rand(60, 3, 80, 80), torch.arange(60) % 2
    dataset = from_tensors((images, labels), (images, labels), validation=0.1)
    given = Context(dataset=dataset, searching=alternating_search(epochs=1))
    pruning = Pruning(model, ChannelGroups(space), given)
    assert len(pruning.images) == 250 * 32 * 32 // (80 * 80)
    layer = next(layer for layer in space.layers if layer.name == "2")
    inputs = torch.rand(39, 4, 78, 78)
    rows = pruning.rows(layer, model[2], inputs)
    assert rows.shape == (39 * (5000 // 39), 4 * 9)
    assert torch.equal(rows, pruning.rows(layer, model[2], inputs))
    pruning.seed = 1
    assert not torch.equal(rows, pruning.rows(layer, model[2], inputs))


def test_a_network_is_looked_at_once_each_time_and_then_left_alone() -> None:
    model, input_shape = network("branches")
    pruning = Pruning(model, ChannelGroups(Space.trace(model, input_shape)), context())
    layers = [layer for layer in pruning.groups.space.layers if layer.kind == "conv"]
    seen: list[str] = []
    for _ in range(2):
        pruning.run_observed(pruning.small, layers, lambda layer, *_: seen.append(layer.name))
    assert sorted(seen) == sorted(2 * [layer.name for layer in layers])


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)
    with pytest.raises(ValueError, match=r"pip install 'transformable\[methods\]'"):
        ranking(torch.eye(2), torch.ones(2), 1)
