"""Sorting channels changes their order and nothing else."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

import transformable as tas
from support.networks import NETWORKS, randomise
from transformable.settings import Residual
from transformable.slimming.sort_channels import sort_channels


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("name", ["resnet20", "resnet164", "mobilenet_v2", *NETWORKS])
def test_the_outputs_stay(name: str, residual: Residual) -> None:
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    make, input_shape = NETWORKS.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    model = randomise(make()).double().eval()
    space = tas.Space.trace(model, input_shape, residual=residual)
    images = torch.randn(2, *input_shape, dtype=torch.float64)
    ordered = sort_channels(model, space)
    torch.testing.assert_close(ordered(images), model(images), rtol=1e-9, atol=1e-9)
    same = [
        torch.equal(a, b) for a, b in zip(model.parameters(), ordered.parameters(), strict=True)
    ]
    assert sum(same) < len(same) / 2


def test_the_best_channels_come_first() -> None:
    torch.manual_seed(0)
    model = randomise(tas.models.build("resnet20"))
    space = tas.Space.trace(model, (3, 32, 32))
    block = sort_channels(model, space).get_submodule("stages.0.0")
    norm, following = block.get_submodule("bn1"), block.get_submodule("conv2")
    assert isinstance(norm, nn.BatchNorm2d)
    assert isinstance(following, nn.Conv2d)
    importance = norm.weight.abs() * following.weight.abs().sum((0, 2, 3))
    assert importance.diff().le(0).all()
