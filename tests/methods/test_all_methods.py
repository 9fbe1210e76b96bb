"""What all methods have in common."""

import copy

import pytest
import torch

import transformable as tas
from support.made_up_latency import made_up_latency
from support.method_inputs import context, images, network
from transformable.costing.budget import Budget
from transformable.data import Dataset
from transformable.methods import METHODS, Context, MethodResult, amc, autoslim, load_method

# a ResNet, and one that is not; VGG has no stages to search the depth of
OTHER_BLOCKS = ("torch-pruning", "torch-pruning-sparse")  # they take grouped channels apart
NETS = [
    *((name, "resnet20") for name in METHODS),
    *((name, "small mobilenet" if name.startswith("tas") else "vgg") for name in METHODS),
    *((name, "grouped convolutions") for name in METHODS if name not in ("lccl", *OTHER_BLOCKS)),
    *((name, "split channels") for name in METHODS if name not in ("tas-depth", *OTHER_BLOCKS)),
]


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what takes long, less."""
    monkeypatch.setattr(amc, "EPISODES", 8)
    monkeypatch.setattr(amc, "WARMUP", 4)
    monkeypatch.setattr(autoslim, "GROUPS_PER_STEP", 3)


def found(name: str, net: str, *, seed: int = 0) -> tuple[Budget, tas.Space, MethodResult]:
    model, space = network(net)
    budget = Budget.of(0.5, space)
    size = space.input_shape[1]
    return budget, space, load_method(name)(model, space, budget, context(size, seed))


@pytest.mark.parametrize(("name", "net"), NETS)
def test_inside_the_band_and_the_model_as_it_was(name: str, net: str) -> None:
    model, space = network(net)
    before = copy.deepcopy(model.state_dict())
    budget = Budget.of(0.5, space)
    torch.manual_seed(5)
    state = torch.random.get_rng_state()
    size = space.input_shape[1]
    result = load_method(name)(model, space, budget, context(size))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert budget.holds(result.cost)
    if result.restore_budget is None:
        assert result.cost == budget.cost(space, result.shape)
        there = sum(p.numel() for p in result.model.parameters())
        assert there == tas.params(space, result.shape)
    for key, value in model.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert all(parameter.grad is None for parameter in model.parameters())
    with torch.no_grad():
        logits = result.model.eval()(torch.rand(2, 3, size, size))
    assert logits.shape[0] == 2
    assert logits.isfinite().all()


@pytest.mark.parametrize("name", [name for name in METHODS if name != "lccl"])
def test_inside_the_band_of_a_latency(name: str) -> None:
    net = "resnet20" if name == "tas-depth" else "vgg"
    model, space = network(net)
    budget = Budget.of(0.75, space, metric="latency", latency=made_up_latency(model, space))
    result = load_method(name)(model, space, budget, context(space.input_shape[1]))
    assert result.cost == budget.cost(space, result.shape)
    assert budget.low <= result.cost <= budget.high


def test_gates_save_no_time() -> None:
    model, space = network("vgg")
    budget = Budget.of(0.75, space, metric="latency", latency=made_up_latency(model, space))
    with pytest.raises(ValueError, match="lccl saves neither parameters nor time"):
        load_method("lccl")(model, space, budget, context(space.input_shape[1]))


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_decides(name: str) -> None:
    net = "resnet20" if name == "tas-depth" else "vgg"
    (_, _, first), (_, _, second) = (found(name, net) for _ in range(2))
    assert first.shape == second.shape
    assert first.notes == second.notes
    state = second.model.state_dict()
    for key, value in first.model.state_dict().items():
        assert torch.equal(value, state[key]), key


# Torch-Pruning drops whole groups
FINE = [name for name in METHODS if name != "tas-depth" and not name.startswith("torch-pruning")]


@pytest.mark.parametrize("name", FINE)
def test_inside_a_narrow_band_where_one_channel_is_much(name: str) -> None:
    model, space = network("stream")
    # 7 of 12 channels are 0.37 of the cost, 8 are 0.47
    budget = Budget.of(0.42, space, tolerance=0.03)
    result = load_method(name)(model, space, budget, context())
    assert budget.holds(result.cost)
    assert result.model.eval()(torch.rand(2, 3, 8, 8)).shape == (2, 4)


def test_depth_needs_stages() -> None:
    with pytest.raises(ValueError, match="no stages whose depth may change"):
        found("tas-depth", "vgg")


def test_no_method_sees_the_test_set() -> None:
    ours = context()
    assert ours.dataset.test is ours.dataset.validation
    whole = len(ours.dataset.train) + len(ours.dataset.validation)
    again = Context(dataset=ours.dataset, searching=ours.searching)
    assert again.dataset.train is ours.dataset.train
    assert whole == 48


def test_where_nothing_is_held_out_a_tenth_is() -> None:
    given = images()
    bare = Dataset(
        info=given.info,
        train=given.train,
        validation=given.validation.subset(torch.arange(0)),
        test=given.test,
    )
    cut = Context(dataset=bare, searching=context().searching).dataset
    assert len(cut.validation) == round(0.1 * len(given.train))
    assert len(cut.train) + len(cut.validation) == len(given.train)
    assert cut.test is cut.validation
