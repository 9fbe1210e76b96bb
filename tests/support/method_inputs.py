"""Small data and short searches, for tests of methods."""

import torch
from torch import nn

import transformable as tas
from support.networks import AND_MOBILENET, randomise
from support.searches import alternating_search
from transformable.data import Dataset, from_tensors
from transformable.methods import Context
from transformable.training.session import Session


class Block(nn.Module):
    """Adds to a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(12, 12, 3, padding=1), nn.BatchNorm2d(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.bn(self.conv(x)) + x
        return added.relu()


def stream() -> nn.Module:
    """All channels are of one group, so that one of them is much of the network."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.Sequential(Block(), Block()),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 4),
    )


def images(size: int = 8, count: int = 48) -> Dataset:
    """Random images of four classes."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(count, 3, size, size, generator=generator)
    part = pixels, torch.arange(count) % 4
    return from_tensors(part, part, validation=0.25)


def context(size: int = 8, seed: int = 0, epochs: int = 2) -> Context:
    """What a method gets in a test."""
    return Context(
        dataset=images(size),
        searching=alternating_search(epochs=epochs, batch_size=12, lr=0.02),
        session=Session(seed=seed),
    )


def network(name: str, size: int = 8) -> tuple[nn.Module, tas.Space]:
    """A network with weights that differ from channel to channel, and its space."""
    torch.manual_seed(0)
    if name == "stream":
        net = randomise(stream())
        return net, tas.Space.trace(net, (3, size, size))
    if name in AND_MOBILENET:
        make, shape = AND_MOBILENET[name]
        net = randomise(make())
        return net, tas.Space.trace(net, shape)
    net = randomise(tas.models.build(name, num_classes=4))
    return net, tas.Space.trace(net, (3, size, size))
