"""AutoSlim: the sandwich rule, networks as parts of one network, the greedy way to the budget."""

import copy
from collections.abc import Callable, Iterator
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import AND_MOBILENET, NETWORKS, randomise
from support.searches import alternating_search
from transformable.costing.budget import Budget
from transformable.data import from_tensors
from transformable.methods import _calibration
from transformable.methods import autoslim as module
from transformable.methods._channel_choice import Scores, most_important
from transformable.methods.autoslim import (
    autoslim,
    narrow_greedily,
    sandwich,
    slim_forward,
)
from transformable.methods.interface import Context
from transformable.settings import Metric, Residual
from transformable.shape import Shape
from transformable.slimming.slim import slim
from transformable.slimming.sort_channels import importance
from transformable.tracing.channel_groups import ChannelGroups
from transformable.tracing.space import Space
from transformable.training.calibration import recalibrate
from transformable.training.session import Session


def context(seed: int = 0, count: int = 32, size: int = 16, num_classes: int = 10) -> Context:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, size, size, generator=generator)
    labels = torch.arange(count) % num_classes
    dataset = from_tensors((images, labels), (images, labels), validation=0.25)
    return Context(
        dataset=dataset,
        searching=alternating_search(epochs=1, batch_size=12),
        session=Session(seed=seed),
    )


def network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    make, input_shape = AND_MOBILENET.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    return randomise(make()), input_shape


def chain() -> tuple[nn.Module, Space]:
    """Two convolutions of 8 and 4 channels that may be narrowed by quarters."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 4, 3, padding=1, bias=False), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2),
    )  # fmt: skip
    return model, Space.trace(model, (3, 4, 4), ratios=(0.5, 0.75, 1.0))


def first(groups: ChannelGroups) -> Scores:
    """Ranks by which the leading channels are the best."""
    return {head: -torch.arange(size).float() for head, size in groups.sizes.items()}


def random_shape(groups: ChannelGroups, seed: int) -> Shape:
    generator = torch.Generator().manual_seed(seed)
    return groups.shape(
        {
            head: torch.randperm(size, generator=generator)[: max(1, size * 2 // 3)].tolist()
            for head, size in groups.sizes.items()
        }
    )


def test_a_step_runs_the_largest_the_smallest_and_two_random_networks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, space = chain()
    groups = ChannelGroups(space)
    calls: list[Shape | str] = []
    said = [torch.randn(5, 2) for _ in range(3)]

    def recorded(whole: nn.Module, traced: Space, shape: Shape, x: Tensor) -> Tensor:
        assert whole is model
        assert traced is space
        calls.append(shape)
        return said[len(calls) - 2]

    largest = torch.randn(5, 2)

    class Largest(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            calls.append("largest")
            return largest

    monkeypatch.setattr(module, "slim_forward", recorded)
    objective = sandwich(model, groups, first(groups), context(num_classes=2))
    labels = torch.tensor([0, 1, 1, 0, 1])
    drawn = []
    for seed in range(40):
        torch.manual_seed(seed)
        calls.clear()
        outcome = objective(Largest(), torch.randn(5, 3, 4, 4), labels)
        top, smallest, *rest = calls
        assert top == "largest"
        assert isinstance(smallest, Shape)
        assert smallest.channels == {"0": (0, 1, 2, 3), "3": (0, 1)}
        assert len(rest) == 2
        drawn += [tuple(shape.widths.values()) for shape in rest if isinstance(shape, Shape)]
    assert set(drawn) == {(a, b) for a in (4, 6, 8) for b in (2, 3, 4)}
    # the mean of four losses; the answers of the largest are the targets of the others
    soft = largest.softmax(1)
    losses = [F.cross_entropy(largest, labels)]
    losses += [-(soft * logits.log_softmax(1)).sum(1).mean() for logits in said]
    torch.testing.assert_close(outcome["loss"], sum(losses, torch.tensor(0.0)) / 4)
    assert outcome["outputs"] is largest


def test_the_largest_network_learns_from_the_labels_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, space = chain()
    groups = ChannelGroups(space)
    monkeypatch.setattr(module, "slim_forward", lambda *_: torch.randn(6, 2))
    x, y = torch.randn(6, 3, 4, 4), torch.arange(6) % 2
    objective = sandwich(model, groups, first(groups), context(num_classes=2))
    objective(model, x, y)["loss"].backward()  # type: ignore[no-untyped-call]
    twin = copy.deepcopy(model)
    twin.zero_grad()
    F.cross_entropy(twin(x), y).backward()  # type: ignore[no-untyped-call]
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        torch.testing.assert_close(4 * ours.grad, theirs.grad)


def test_gradients_of_a_part_by_hand() -> None:
    model, space = chain()
    x = torch.randn(6, 3, 4, 4)
    shape = Shape({"0": 3, "3": 2}, {}, {"0": (1, 4, 7), "3": (0, 2)})
    slim_forward(model, space, shape, x).square().sum().backward()  # type: ignore[no-untyped-call]
    weights = [p.detach().clone() for p in model.parameters()]
    first_conv, scale, shift = (p[[1, 4, 7]].requires_grad_() for p in weights[:3])
    second = weights[3][[0, 2]][:, [1, 4, 7]].requires_grad_()
    linear, bias = weights[4][:, [0, 2]].requires_grad_(), weights[5].requires_grad_()
    y = F.batch_norm(F.conv2d(x, first_conv), None, None, scale, shift, training=True)
    y = F.conv2d(y.relu(), second, padding=1).relu().mean((2, 3))
    F.linear(y, linear, bias).square().sum().backward()  # type: ignore[no-untyped-call]
    expected = [torch.zeros_like(w) for w in weights]
    for i, part in enumerate((first_conv, scale, shift)):
        assert part.grad is not None
        expected[i][[1, 4, 7]] = part.grad
    assert second.grad is not None
    assert linear.grad is not None
    assert bias.grad is not None
    expected[3][torch.tensor([[0], [2]]), torch.tensor([1, 4, 7])] = second.grad
    expected[4][:, [0, 2]] = linear.grad
    expected[5] = bias.grad
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "residual"),
    [
        ("mobilenet_v2", "pad"),
        ("padded resnet", "project"),
        ("resnet20", "tied"),
        *((name, "pad") for name in NETWORKS),
    ],
)
def test_gradients_of_a_part_are_those_of_the_small_network(name: str, residual: Residual) -> None:
    model, input_shape = network(name)
    model = model.double().train()
    space = Space.trace(model, input_shape, residual=residual)
    shape = random_shape(ChannelGroups(space), seed=3)
    # a network of places instead of weights: slim says which of them a parameter comes from
    places = copy.deepcopy(model)
    for parameter in places.parameters():
        parameter.data = torch.arange(parameter.numel()).double().view_as(parameter)
    places = slim(places, space, shape)
    small = slim(model, space, shape)
    x = torch.randn(4, *input_shape, dtype=torch.float64)
    torch.manual_seed(5)
    logits = slim_forward(model, space, shape, x)
    logits.square().mean().backward()  # type: ignore[no-untyped-call]
    torch.manual_seed(5)
    torch.testing.assert_close(small(x), logits, rtol=1e-9, atol=1e-9)
    torch.manual_seed(5)
    small(x).square().mean().backward()
    there, theirs = dict(places.named_parameters()), dict(small.named_parameters())
    for key, parameter in model.named_parameters():
        if key not in theirs:
            assert parameter.grad is None
            continue
        gradient = torch.zeros(parameter.numel(), dtype=torch.float64)
        own = theirs[key].grad
        assert own is not None
        gradient[there[key].long().flatten()] = own.flatten()
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.flatten(), gradient, rtol=1e-8, atol=1e-9)


def cost_of_chain(a: int, b: int) -> int:
    return 16 * 3 * a + 16 * 9 * a * b + (b + 1) * 2


def test_the_step_that_hurts_least_is_taken() -> None:
    _, space = chain()
    groups = ChannelGroups(space)
    table = {  # accuracy and loss at widths (a, b)
        (6, 4): (0.8, 0.5), (8, 3): (0.9, 0.9),  # the second, by accuracy
        (6, 3): (0.7, 0.6), (8, 2): (0.7, 0.5),  # the second, by loss
        (6, 2): (0.1, 9.0),  # the only one that is left
    }  # fmt: skip
    asked = []

    def score(shape: Shape) -> tuple[float, float]:
        asked.append(tuple(shape.widths.values()))
        return table[shape.widths["0"], shape.widths["3"]]

    target = cost_of_chain(6, 2)
    budget = Budget(metric="macs", value=target, low=target - 10, high=target + 10)
    path = list(narrow_greedily(groups, budget, first(groups), score))
    assert [tuple(shape.widths.values()) for shape in path] == [(8, 4), (8, 3), (8, 2), (6, 2)]
    assert budget.cost(space, path[-1]) == target
    assert asked == [(6, 4), (8, 3), (6, 3), (8, 2), (6, 2)]


def test_where_all_steps_jump_over_the_band_single_channels_go() -> None:
    _, space = chain()
    groups = ChannelGroups(space)
    target = cost_of_chain(7, 4)
    budget = Budget(metric="macs", value=target, low=target - 200, high=target + 200)
    assert min(cost_of_chain(6, 4), cost_of_chain(8, 3)) < budget.low
    path = list(narrow_greedily(groups, budget, first(groups), lambda shape: (0.5, 0.5)))
    assert [shape.channels["0"] for shape in path] == [tuple(range(8)), tuple(range(7))]


def test_below_the_smallest_candidates_it_goes_on() -> None:
    _, space = chain()
    groups = ChannelGroups(space)
    budget = Budget(metric="macs", value=cost_of_chain(2, 1), low=1, high=cost_of_chain(2, 1))
    *_, last = narrow_greedily(groups, budget, first(groups), lambda shape: (0.5, 0.5))
    assert budget.holds(cost_of_chain(*last.widths.values()))


def test_of_two_dozen_groups_three_are_narrowed_at_a_time() -> None:
    model, input_shape = network("mobilenet_v2")
    space = Space.trace(model, input_shape, ratios=(0.5, 1.0))
    groups = ChannelGroups(space)
    assert len(groups.sizes) == 25
    budget = Budget.of(0.5, space)
    asked: list[Shape] = []

    def score(shape: Shape) -> tuple[float, float]:
        asked.append(shape)
        # the later a layer stands, the less it hurts
        narrowed = [i for i, head in enumerate(groups.sizes) if shape.widths[head] < full[head]]
        return sum(narrowed) / 1000, 0.0

    full = space.full.widths
    path = narrow_greedily(groups, budget, first(groups), score)
    start, *three = (next(path) for _ in range(4))
    assert start.widths == full
    assert len(asked) == 25
    last = list(groups.sizes)[-3:]
    assert [head for head in groups.sizes if three[-1].widths[head] < full[head]] == last
    # the third of them would go too far here
    budget = Budget.of(0.8, space, tolerance=0.02)
    assert budget.cost(space, three[-1]) < budget.low
    path = narrow_greedily(groups, budget, first(groups), score)
    costs = [budget.cost(space, shape) for shape in path]
    assert min(costs) >= budget.low
    assert budget.holds(costs[-1])


@pytest.mark.parametrize(
    ("residual", "metric"), [("pad", "macs"), ("project", "params"), ("tied", "params")]
)
@pytest.mark.parametrize("name", ["resnet20", *NETWORKS])
def test_the_way_ends_in_the_band(name: str, residual: Residual, metric: Metric) -> None:
    model, input_shape = network(name)
    space = Space.trace(model, input_shape, residual=residual, ratios=(0.4, 0.7, 1.0))
    budget = Budget.of(0.5, space, metric=metric)
    groups = ChannelGroups(space)
    generator = torch.Generator().manual_seed(0)

    def score(shape: Shape) -> tuple[float, float]:
        return float(torch.rand((), generator=generator)), 0.0

    *_, last = narrow_greedily(groups, budget, importance(model, space, groups.mean), score)
    assert budget.holds(budget.cost(space, last))
    assert last.depths == space.full.depths


def test_recalibrated_norms_have_the_statistics_of_the_images() -> None:
    model, _ = chain()
    settings = context(count=200, size=4)
    images = settings.dataset.train
    batches = [x for x, _ in images.shuffled(64, seed=0, epoch=0)]
    assert len(batches) == 2
    model(torch.randn(9, 3, 4, 4))  # what it saw before is forgotten
    model = recalibrate(model, batches, settings.session.fabric)
    [norm] = (m for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    [one, two] = (model[0](x).detach() for x in batches)  # type: ignore[index]
    assert norm.running_mean is not None
    assert norm.running_var is not None
    torch.testing.assert_close(norm.running_mean, (one.mean((0, 2, 3)) + two.mean((0, 2, 3))) / 2)
    torch.testing.assert_close(norm.running_var, (one.var((0, 2, 3)) + two.var((0, 2, 3))) / 2)
    assert norm.momentum == 0.1
    assert not model.training


def test_worth_is_scale_times_what_is_taken() -> None:
    model, space = chain()
    parts = list(model.children())
    norm, second, linear = parts[1], parts[3], parts[7]
    assert isinstance(norm, nn.BatchNorm2d)
    assert isinstance(second, nn.Conv2d)
    assert isinstance(linear, nn.Linear)
    norm.weight.data = torch.tensor([1.0, -2.0, 3.0, 0.0, 1.0, 1.0, 1.0, 1.0])
    found = importance(model, space, ChannelGroups(space).mean)
    torch.testing.assert_close(
        found["0"], norm.weight.detach().abs() * second.weight.detach().abs().sum((0, 2, 3))
    )
    torch.testing.assert_close(
        found["3"],
        second.weight.detach().abs().sum((1, 2, 3)) * linear.weight.detach().abs().sum(0),
    )


@pytest.mark.parametrize(
    ("name", "residual", "metric", "amount"),
    [
        ("resnet20", "pad", "params", 0.9),
        ("small mobilenet", "pad", "macs", 0.9),
        ("vgg", "tied", "macs", 0.6),
        ("branches", "pad", "params", 0.6),
        ("padded resnet", "project", "macs", 0.9),
    ],
)
def test_a_network_in_the_band_and_the_given_one_as_it_was(
    name: str,
    residual: Residual,
    metric: Metric,
    amount: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, input_shape = network(name)
    if name == "small mobilenet":  # to judge each of its many steps would take long

        def blind(
            groups: ChannelGroups, budget: Budget, ranks: Scores, _: object
        ) -> Iterator[Shape]:
            return narrow_greedily(groups, budget, ranks, lambda shape: (0.5, 0.5))

        monkeypatch.setattr(module, "narrow_greedily", blind)
    model.eval()
    before = copy.deepcopy(model.state_dict())
    space = Space.trace(model, input_shape, ratios=(0.5, 1.0), residual=residual)
    budget = Budget.of(amount, space, metric=metric)
    state = torch.get_rng_state()
    found = autoslim(model, space, budget, context())
    assert torch.equal(torch.get_rng_state(), state)
    assert found.cost == budget.cost(space, found.shape)
    assert budget.holds(found.cost)
    with torch.no_grad():
        assert found.model(torch.rand(2, *input_shape)).shape == (2, 10)
    assert not found.model.training
    same = slim(model, space, found.shape).state_dict()
    sizes = {name: tensor.shape for name, tensor in found.model.state_dict().items()}
    assert sizes == {name: tensor.shape for name, tensor in same.items()}
    assert not model.training
    assert all(p.grad is None for p in model.parameters())
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key])


def test_a_seed_says_all() -> None:
    model, input_shape = network("vgg")
    space = Space.trace(model, input_shape, ratios=(0.5, 1.0))
    budget = Budget.of(0.6, space)
    runs = [autoslim(model, space, budget, context(seed)) for seed in (0, 0, 1)]
    one, same, other = (run.model.state_dict() for run in runs)
    assert runs[0].shape == runs[1].shape
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not torch.equal(one["classifier.2.bias"], other["classifier.2.bias"])


def test_the_small_network_is_a_part_of_the_trained_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model, input_shape = network("vgg")
    space = Space.trace(model, input_shape, ratios=(0.5, 1.0))
    trained: list[nn.Module] = []
    train = Context.train

    def recorded(self: Context, net: nn.Module, **options: object) -> object:
        trained.append(net)
        return train(self, net, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Context, "train", recorded)
    found = autoslim(model, space, Budget.of(0.6, space), context())
    [net] = trained
    expected = dict(slim(net, space, found.shape).named_parameters())
    for key, parameter in found.model.named_parameters():
        assert torch.equal(parameter, expected[key])
    ranks = importance(model, space, ChannelGroups(space).mean)
    assert found.shape == most_important(ChannelGroups(space), ranks, found.shape.widths)


def test_a_band_that_no_step_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    model, space = chain()
    images = context(size=4, num_classes=2)
    with pytest.raises(
        ValueError, match="this method reaches no shape that costs 3,000 to 3,000 MACs"
    ):
        autoslim(model, space, Budget(metric="macs", value=3000, low=3000, high=3000), images)

    def first_layer_hurts_least(net: nn.Module, *_: object, **__: object) -> dict[str, float]:
        return {"accuracy": 1 / len(next(net.parameters())), "loss": 0.0}

    monkeypatch.setattr(_calibration, "evaluate", first_layer_hurts_least)
    target = cost_of_chain(7, 3)
    budget = Budget(metric="macs", value=target, low=target, high=target)
    words = f"costs {target:,} to {target:,} MACs; the nearest costs {cost_of_chain(6, 4):,}"
    with pytest.raises(ValueError, match=words):
        autoslim(model, space, budget, images)
