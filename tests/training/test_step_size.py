"""The learning rate for a network that is trained already."""

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

import transformable as tas
from support.searches import alternating_search
from transformable.data import Dataset, from_tensors
from transformable.searching.search import with_trained_network
from transformable.settings import Distilling, Searching, Training, Transfer
from transformable.training.devices import make_fabric
from transformable.training.distill import with_teacher
from transformable.training.step_size import filter_size, with_learning_rate


def network(scale: float = 1.0, norm: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    behind = nn.BatchNorm2d(4) if norm else nn.Identity()
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), behind, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    with torch.no_grad():
        filters(net).mul_(scale)
    return net


def filters(net: nn.Module) -> nn.Parameter:
    return next(net.parameters())


def data() -> Dataset:
    torch.manual_seed(0)
    images = torch.rand(16, 3, 8, 8), torch.arange(16) % 2
    return from_tensors(images, images, validation=0)


def test_filters_of_he_et_al_have_size_one() -> None:
    net = network()
    nn.init.constant_(filters(net), (2 / 27) ** 0.5)
    assert filter_size(net) == pytest.approx(1.0)
    other = copy.deepcopy(net[:2])
    filters(other).data.mul_(10)
    # one layer that is unlike all others does not count
    assert filter_size(nn.Sequential(net, copy.deepcopy(net), other)) == pytest.approx(1.0)


def test_filters_of_twice_the_size_get_steps_four_times_as_large() -> None:
    once, twice = (with_learning_rate(Training(lr=0), network(scale)).lr for scale in (1, 2))
    size = filter_size(network())
    assert size is not None
    assert once == pytest.approx(0.0235 * size)
    assert twice == pytest.approx(4 * once)


@pytest.mark.parametrize("seed", range(8))
def test_the_memory_format_does_not_count(seed: int) -> None:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Conv2d(8, 24, 3), nn.BatchNorm2d(24))
    other = copy.deepcopy(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert filter_size(other) == filter_size(net)


@pytest.mark.parametrize(
    ("net", "lr"),
    [(network(norm=False), 0.0015), (network(100.0), 0.05), (network(0.001), 0.0005)],
    ids=["no norms", "very large", "very small"],
)
def test_bounds(net: nn.Module, lr: float) -> None:
    assert with_learning_rate(Training(lr=0), net).lr == lr


def test_a_learning_rate_that_is_given_stays() -> None:
    settings = Distilling(lr=0.3)
    assert with_learning_rate(settings, network()) is settings


def test_a_student_learns_at_the_rate_of_its_teacher() -> None:
    teacher, student = network(1.5), network(0.5)
    settings = Distilling(epochs=2, batch_size=8, lr=0, warmup_epochs=0)
    own = with_teacher(settings, teacher, data(), make_fabric("cpu"))
    left_open, given = (
        tas.distill(copy.deepcopy(student), data(), each, teacher=teacher).model
        for each in (settings, own)
    )
    for a, b in zip(left_open.parameters(), given.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(filters(left_open), filters(student))


@pytest.mark.parametrize("transfer", ["none", "kd"])
def test_a_student_that_starts_fresh_takes_large_steps(transfer: Transfer) -> None:
    settings = Distilling(epochs=2, batch_size=8, lr=0, warmup_epochs=0, transfer=transfer)
    left_open, given = (
        tas.distill(network(), data(), each, teacher=network(0.5)).model
        for each in (settings, replace(settings, lr=0.1))
    )
    assert torch.equal(filters(left_open), filters(given))
    assert not torch.equal(filters(left_open), filters(network()))


def test_a_search_and_a_training_learn_too() -> None:
    net = tas.models.build("resnet20", num_classes=2)
    found = tas.search(
        net, data(), 0.5, alternating_search(epochs=2, batch_size=8, lr=0, warmup_epochs=0)
    )
    lr = with_trained_network(Searching(lr=0), net, data(), make_fabric("cpu")).lr
    # of four steps of a cosine, over halves of one batch each, the first is the highest
    assert found.history[0]["lr"] == pytest.approx(lr)
    fresh = alternating_search(epochs=2, batch_size=8, lr=0, warmup_epochs=0, start="scratch")
    assert tas.search(net, data(), 0.5, fresh).history[0]["lr"] == pytest.approx(0.1)
    trained = copy.deepcopy(net)
    tas.train(trained, data(), Training(epochs=1, batch_size=8, lr=0, warmup_epochs=0))
    assert not torch.equal(filters(trained), filters(net))
