"""Networks that do not fit a dataset are refused before any training."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from transformable.data import Info, from_tensors
from transformable.own_task import own_task
from transformable.pruning.prune import prune
from transformable.timing.parts import find_parts
from transformable.tracing.space import Space
from transformable.training.checks import check_outputs, check_task
from transformable.training.evaluate import evaluate
from transformable.training.train import train


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x, 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 10)), "10 outputs, but x has 100 classes"),
        (nn.Conv2d(1, 100, 2), "an output of (1, 100, 1, 1) for one image of x, instead of"),
        (nn.Conv2d(3, 100, 2), "cannot take x's images of 1x2x2: RuntimeError: Given groups=1"),
        (Two(), "returns tuple instead of a tensor of logits"),
        (nn.Linear(2, 100).bfloat16(), "is in bfloat16, and images are in float32: give model.fl"),
    ],
)
def test_outputs_that_are_not_the_classes(model: nn.Module, message: str) -> None:
    info = Info(name="x", input_shape=(1, 2, 2), num_classes=100, classes=())
    with pytest.raises(ValueError, match="the model") as caught:
        check_outputs(model, info)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert model.training


def test_weights_that_are_not_numbers_are_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(4), nn.Linear(4, 2))
    model.state_dict()["1.running_mean"][2] = float("nan")
    images = torch.rand(8, 1, 2, 2), torch.arange(8) % 2
    data = from_tensors(images, images)
    message = "^the network has NaN among its weights, in '1.running_mean'; give it other weights$"
    with pytest.raises(ValueError, match=message):
        train(model, data)
    with pytest.raises(ValueError, match=message):
        check_outputs(model, data.info)


def frozen_norm() -> nn.Module:
    """A network in training mode, with a norm that its user has put into evaluation mode."""
    network = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))
    network.train()[1].eval()
    return network


def test_every_module_is_in_its_own_mode_after_an_evaluation() -> None:
    network = frozen_norm()
    modes = [module.training for module in network.modules()]
    assert modes == [True, True, False, True, True]
    images = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])
    dataset = from_tensors(images, images, validation=0)
    evaluate(network, dataset.test)
    assert [module.training for module in network.modules()] == modes
    check_task(network, dataset)
    assert [module.training for module in network.modules()] == modes
    find_parts(network, Space.trace(network, (1, 8, 8)))
    assert [module.training for module in network.modules()] == modes


def test_a_dataset_is_evaluated_on_its_test_images_and_by_its_task() -> None:
    network = frozen_norm()
    images = torch.rand(4, 1, 8, 8), torch.tensor([0, 1, 0, 1])
    dataset = from_tensors(images, images, validation=0)
    assert evaluate(network, dataset) == evaluate(network, dataset.test)
    task = own_task(lambda model, batch: model(batch[0]).sum(), lambda model, batch: 7.0)
    assert task is not None
    assert evaluate(network, replace(dataset, task=task))["score"] == 7.0


@pytest.mark.parametrize(
    ("wrap", "message"),
    [
        (
            partial(torch.compile, backend="eager"),
            "the model is OptimizedModule, .*; give the network: net._orig_mod$",
        ),
        (nn.DataParallel, "the model is DataParallel, .*; give the network: net.module$"),
    ],
)
def test_what_is_around_a_network_is_named(wrap: Any, message: str) -> None:
    network = wrap(frozen_norm())
    with pytest.raises(ValueError, match=message):
        train(network, "digits")
    with pytest.raises(ValueError, match=message):
        Space.trace(network, (1, 8, 8))


def test_signals_that_were_read_as_images_are_named_with_the_fix() -> None:
    signals = torch.rand(4, 2, 16), torch.tensor([0, 1, 0, 1])
    network = nn.Sequential(nn.Conv1d(2, 4, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten())
    with pytest.raises(
        ValueError,
        match=r"cannot take tensors's images of 1x2x16: .*; give signals \(N, C, L\) as "
        r"\(N, C, 1, L\), by x.unsqueeze\(2\), and a network whose forward begins with x = x.sq",
    ):
        prune(network, from_tensors(signals, signals))
