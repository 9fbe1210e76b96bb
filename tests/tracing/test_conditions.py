"""Forwards that ask for the sizes of tensors."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.agreement import agreeing_space


class Network(nn.Module):
    """A block whose forward is a function between two layers."""

    def __init__(self, run: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)
        self.run = run

    def forward(self, x: Tensor) -> Tensor:
        assert x.shape[1] == 3
        assert x.dim() == 4
        x = self.run(self, self.stem(x))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


def pool_if_large(net: Any, x: Tensor) -> Tensor:
    if x.shape[-1] > 8:
        x = F.max_pool2d(x, 2)
    return net.conv(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(("size", "pixels"), [(8, 64), (12, 36)])
def test_pixels_are_known(size: int, pixels: int) -> None:
    network = Network(pool_if_large)
    space = tas.Space.trace(network, (3, size, size))
    assert list(space.widths) == ["stem", "conv"]
    assert space.fixed == {}
    macs = size * size * 3 * 8 * 9 + pixels * 8 * 8 * 9 + 8 * 5 + 5
    assert tas.macs(space, space.full) == macs
    small = tas.slim(network.eval(), space, space.full)
    images = torch.randn(2, 3, size, size)
    assert torch.equal(small(images), network(images))


def test_networks_of_any_width_decide_alike() -> None:
    assert agreeing_space(Network(pool_if_large)).fixed == {}


def same_sizes(net: Any, x: Tensor) -> Tensor:
    y: Tensor = net.conv(x)
    return x + y if x.size(2) == y.size(2) and x.shape[2:] == y.shape[2:] else y


def test_other_axes_than_the_channels_leave_widths_free() -> None:
    assert agreeing_space(Network(same_sizes)).fixed == {}


@pytest.mark.parametrize(
    "asked", [lambda x: x.shape[1] > 4, lambda x: x.shape[1:] == (8, 8, 8), lambda x: x.size(1) > 4]
)
def test_a_number_of_channels_that_decides_stays(asked: Any) -> None:
    space = agreeing_space(Network(lambda net, x: net.conv(x) if asked(x) else x))
    assert list(space.widths) == ["conv"]
    reason = r"'\w+' \(test_conditions.py, line \d+\) depends on its number of channels"
    assert re.fullmatch(reason, space.fixed["stem"])


@pytest.mark.parametrize("asked", [lambda x: x.shape[0] == 2, lambda x: x.sum() > 0])
def test_images_and_their_number_do_not_decide(asked: Any) -> None:
    with pytest.raises(ValueError, match=r"cannot trace Network: .*control flow \(test_conditions"):
        tas.Space.trace(Network(lambda net, x: net.conv(x) if asked(x) else x), (3, 8, 8))
