"""Small data and short searches, for tests of methods."""

import torch
from torch import nn

import transformable as tas
from networks import NETWORKS, randomise
from transformable.config import Searching
from transformable.data import Dataset, from_tensors
from transformable.methods import Context


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
        searching=Searching(epochs=epochs, batch_size=12, lr=0.02),
        seed=seed,
    )


def network(name: str, size: int = 8) -> tuple[nn.Module, tas.Space]:
    """A network with weights that differ from channel to channel, and its space."""
    torch.manual_seed(0)
    if name in NETWORKS:
        make, shape = NETWORKS[name]
        net = randomise(make())
        return net, tas.Space.trace(net, shape)
    net = randomise(tas.models.build(name, num_classes=4))
    return net, tas.Space.trace(net, (3, size, size))
