"""A search that starts from a trained network."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import transformable as tas
from support.method_inputs import context
from support.method_inputs import network as any_network
from support.searches import alternating_search
from transformable.costing.expected_cost import Expectation
from transformable.methods import load_method
from transformable.searching.sensitivity import Sensitivities, images_to_measure
from transformable.training.calibration import recalibrate, sample_images
from transformable.training.devices import make_fabric

FABRIC = make_fabric("cpu")


def network() -> tuple[nn.Module, tas.Space]:
    """A ResNet-20 with few candidates: each is a network to be built and run."""
    net, _ = any_network("resnet20")
    return net, tas.Space.trace(net, (3, 8, 8), ratios=(0.3, 0.5, 1.0), depth_step=2)


def measured(net: nn.Module, space: tas.Space, images: torch.Tensor) -> Sensitivities:
    return Sensitivities(
        net.eval(), lambda shape: tas.slim(net, space, shape), space, images, FABRIC
    )


def distance(net: nn.Module, space: tas.Space, images: torch.Tensor, shape: tas.Shape) -> float:
    """By hand: the divergence of the softened answers, with the statistics of the images."""
    small = tas.slim(net, space, shape).train()
    with torch.no_grad():
        ours, theirs = small(images) / 4, net.eval()(images) / 4
    return float(
        16
        * F.kl_div(
            ours.log_softmax(1), theirs.log_softmax(1), reduction="batchmean", log_target=True
        )
    )


def test_channels_that_nothing_reads_may_go_for_nothing() -> None:
    net, space = network()
    with torch.no_grad():
        net.get_parameter("stages.1.1.conv2.weight")[:, 16:] = 0
    torch.manual_seed(0)
    images = torch.randn(24, 3, 8, 8)
    recalibrate(net, [images], FABRIC)
    sensitivities = measured(net, space, images)
    found = sensitivities.around(space.full)
    assert set(found) == set(space.candidates)
    for name, sizes in space.candidates.items():
        assert found[name].shape == (len(sizes),)
        assert found[name][-1] == 0  # as it is
    row = dict(zip(space.widths["stages.1.1.conv1"], found["stages.1.1.conv1"], strict=True))
    assert all(value < 1e-6 for width, value in row.items() if width >= 16)
    assert row[9] > 1e-4
    # the model, the shape itself, and every candidate that differs from it
    counts = [len(sizes) - 1 for sizes in space.candidates.values()]
    assert sensitivities.forward_images == 24 * (2 + sum(counts))


def test_sizes_are_measured_around_a_shape() -> None:
    net, space = network()
    torch.manual_seed(0)
    images = torch.randn(24, 3, 8, 8)
    recalibrate(net, [images], FABRIC)
    narrow = space.full.replace(widths={"stages.2.0.conv1": 19}, depths={"stages.1": 1})
    found = measured(net, space, images).around(narrow)
    here = distance(net, space, images, narrow)
    for changed, value in (
        (narrow.replace(depths={"stages.2": 1}), found["stages.2"][0]),
        (narrow.replace(depths={"stages.1": 3}), found["stages.1"][1]),
        (narrow.replace(widths={"stages.2.0.conv1": 64}), found["stages.2.0.conv1"][2]),
    ):
        expected = distance(net, space, images, changed) - here
        assert math.isclose(value, expected, rel_tol=1e-3, abs_tol=1e-6)
    assert found["stages.1.2.conv1"].abs().max() < 1e-6  # a block that is dropped


@pytest.mark.parametrize(("whole", "sharpness"), [(10.0, 8.0), (0.9, 50.0)])
def test_logits_are_of_what_a_size_changes_and_a_block_counts_four_times(
    whole: float, sharpness: float
) -> None:
    """The less the whole shape of the budget changes, the more each of its sizes counts."""
    net, space = network()
    sensitivities, budget = measured(net, space, torch.randn(4, 3, 8, 8)), tas.Budget.of(0.9, space)
    changes = {name: torch.zeros(len(sizes)) for name, sizes in space.candidates.items()}
    changes["stages.1"][0] = changes["stages.1.0.conv1"][0] = 0.2
    sensitivities.around = lambda shape: changes  # type: ignore[method-assign]
    sensitivities._distance = lambda shape: torch.tensor(whole)  # type: ignore[method-assign]
    logits = sensitivities.logits(budget, space.full)

    def saved(kind: str, name: str) -> float:
        sizes = (space.widths if kind == "widths" else space.depths)[name]
        small, full = (space.full.replace(**{kind: {name: size}}) for size in (sizes[0], sizes[-1]))
        return (tas.macs(space, full) - tas.macs(space, small)) / tas.macs(space, space.full)

    def gained(name: str) -> float:
        return float(logits[name][0] - logits[name][-1])

    price = gained("stages.0") / saved("depths", "stages.0")  # of a stage that changes nothing
    block = price * saved("depths", "stages.1") - gained("stages.1")
    layer = price * saved("widths", "stages.1.0.conv1") - gained("stages.1.0.conv1")
    assert math.isclose(layer, sharpness * 0.2, rel_tol=1e-4)
    assert math.isclose(block, 4 * sharpness * 0.2, rel_tol=1e-4)


def test_the_target_falls_to_the_budget() -> None:
    net, space = network()
    torch.manual_seed(0)
    images = torch.randn(24, 3, 8, 8)
    sensitivities, budget = measured(net, space, images), tas.Budget.of(0.3, space)
    bases = []
    around = sensitivities.around
    sensitivities.around = lambda shape: (bases.append(shape), around(shape))[1]  # type: ignore[func-returns-value,method-assign]
    logits = sensitivities.logits(budget, space.full)
    # ln .3 / ln .7 is 3.4: four steps, each to the same share of the one before
    shares = [tas.macs(space, shape) / tas.macs(space, space.full) for shape in bases]
    assert len(shares) == 4
    for share, target in zip(shares, (1.0, 0.3**0.25, 0.3**0.5, 0.3**0.75), strict=True):
        assert 0.7 * target < share <= target
    expected = Expectation(space).macs({n: row.double().softmax(0) for n, row in logits.items()})
    assert math.isclose(float(expected), budget.value, rel_tol=1e-3)


def trained(epochs: int) -> tas.Searching:
    return alternating_search(
        epochs=epochs,
        batch_size=12,
        lr=0.01,
        align="pad",
        start="sensitivity",
        inherit=True,
    )


def test_without_an_epoch_the_shape_is_that_of_the_sensitivities() -> None:
    net, space = network()
    given = replace(context(), searching=trained(0))
    budget = tas.Budget.of(0.5, space)
    found = tas.search(net, given.dataset, budget, trained(0), space=space)
    assert found.history == []
    images = sample_images(
        given.dataset.train, images_to_measure(space, len(given.dataset.train)), 0
    ).images
    rows = measured(found.model, space, images).logits(budget, space.full)
    for name, row in rows.items():  # a fresh network changes little: large logits of small changes
        assert torch.allclose(found.probabilities[name], row.double().softmax(0), atol=1e-3), name
    assert budget.holds(found.derived.cost)
    # what was not trained is the network itself, its channels sorted
    small = found.network.eval()
    same = tas.slim(found.model, space, found.shape).eval()
    x = torch.randn(3, 3, 8, 8)
    with torch.no_grad():
        assert torch.allclose(small(x), same(x), atol=1e-5)


def test_the_small_network_keeps_the_weights_of_the_search() -> None:
    net, space = network()
    budget = tas.Budget.of(0.5, space)
    given = replace(context(), searching=trained(2))
    inherited = load_method("tas")(net, space, budget, given)
    searched = tas.search(net, given.dataset, budget, trained(2), space=space)
    assert inherited.shape == searched.shape
    expected = searched.network.state_dict()
    for name, value in inherited.model.state_dict().items():
        assert torch.equal(value, expected[name]), name
    plain = replace(given, searching=replace(trained(2), inherit=False))
    other = load_method("tas")(net, space, budget, plain)
    assert other.shape == inherited.shape
    kept = other.model.state_dict()["stem.0.weight"]
    assert not torch.equal(kept, expected["stem.0.weight"])
    # without it, they are channels of the network that was given
    rows = net.state_dict()["stem.0.weight"].flatten(1)
    assert all((rows == row).all(1).any() for row in kept.flatten(1))
