"""The three forms of a network must agree: itself, its slim networks and its supernet."""

from collections.abc import Sequence

import torch
from torch import nn

import transformable as tas

from .networks import randomise
from .supernets import draw_of


def agreeing_space(
    network: nn.Module, size: int = 8, residual: str = "pad", leaf: Sequence[str] = ()
) -> tas.Space:
    """The space of a network whose forms compute the same, in evaluation and for several shapes;
    training steps of the supernet work too."""
    torch.manual_seed(0)
    network = randomise(network).double().eval()
    images = torch.randn(3, 3, size, size, dtype=torch.float64)
    space = tas.Space.trace(network, (3, size, size), residual=residual, leaf=leaf)  # type: ignore[arg-type]
    net = tas.SuperNet(network, space, align="pad").double().eval()
    generator = torch.Generator().manual_seed(1)
    assert torch.equal(tas.slim(network, space, space.full)(images), network(images.clone()))
    for shape in (space.full, space.smallest, *(space.sample(generator) for _ in range(4))):
        small = tas.slim(network, space, shape)
        expected = small(images.clone())
        drawn = net(images.clone(), draw_of(net, shape))
        torch.testing.assert_close(drawn, expected, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(net.extract(shape)(images.clone()), expected)
        small.train()(images.clone()).sum().backward()
    for _ in range(2):
        net.train()(images.clone()).sum().backward()
    return space
