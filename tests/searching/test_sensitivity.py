"""A search that starts from a trained network."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

import transformable as tas
from support.method_inputs import context
from support.method_inputs import network as any_network
from transformable.methods import load_method
from transformable.searching.sensitivity import sensitivities
from transformable.training.calibration import recalibrate
from transformable.training.devices import make_fabric


def network() -> tuple[nn.Module, tas.Space]:
    """A ResNet-20 with few candidates: each is a network to be built and run."""
    net, _ = any_network("resnet20")
    return net, tas.Space.trace(net, (3, 8, 8), ratios=(0.3, 0.5, 1.0), depth_step=2)


def test_channels_that_nothing_reads_may_go_for_nothing() -> None:
    net, space = network()
    with torch.no_grad():
        net.get_parameter("stages.1.1.conv2.weight")[:, 16:] = 0
    torch.manual_seed(0)
    images = torch.randn(24, 3, 8, 8)
    recalibrate(net, [images], make_fabric())
    found = sensitivities(net, space, images, make_fabric())
    assert set(found) == set(space.candidates)
    for name, sizes in space.candidates.items():
        assert found[name].shape == (len(sizes),)
        assert found[name][-1] == 0  # as it is
    row = dict(zip(space.widths["stages.1.1.conv1"], found["stages.1.1.conv1"], strict=True))
    assert all(value < 1e-6 for width, value in row.items() if width >= 16)
    assert row[9] > 1e-4

    # by hand: the divergence of the softened answers of the network with one size changed
    def divergence(shape: tas.Shape) -> torch.Tensor:
        small = recalibrate(tas.slim(net, space, shape), [images], make_fabric())
        with torch.no_grad():
            ours, theirs = small(images) / 4, net.eval()(images) / 4
        return 16 * F.kl_div(
            ours.log_softmax(1), theirs.log_softmax(1), reduction="batchmean", log_target=True
        )

    one_block = divergence(space.full.replace(depths={"stages.2": 1}))
    assert torch.allclose(found["stages.2"][0], one_block - divergence(space.full), rtol=1e-3)


def trained(epochs: int) -> tas.Searching:
    return tas.Searching(
        epochs=epochs,
        batch_size=12,
        lr=0.01,
        align="pad",
        start="answers",
        inherit=True,
    )


def test_without_an_epoch_the_shape_is_that_of_the_sensitivities() -> None:
    net, space = network()
    given = replace(context(), searching=trained(0))
    budget = tas.Budget.of(0.5, space)
    found = tas.search(net, given.dataset, budget, trained(0), space=space)
    images = torch.cat([x for x, _ in given.dataset.train.ordered(64)])
    assert found.history == []
    rows = sensitivities(found.model, space, images, make_fabric())
    for name, row in rows.items():
        # the sample holds the same images in another order
        expected = (-8.0 * row.double()).softmax(0)
        assert torch.allclose(found.probabilities[name], expected, atol=1e-3), name
    assert budget.holds(found.derived.cost)
    # what was not trained is the network itself, its channels sorted
    small = found.net.extract(found.shape).eval()
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
    expected = searched.net.extract(searched.shape).state_dict()
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
