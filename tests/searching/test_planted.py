"""A trained network in which some layers are wider than they need to be, on purpose."""

import itertools

import torch
from torch import Tensor, nn

import transformable as tas
from transformable.presets import PRESETS
from transformable.settings import Training
from transformable.training.session import Session

INNER = [f"stages.{stage}.{block}.conv1" for stage in range(3) for block in range(3)]
REDUNDANT = {INNER[i] for i in (0, 3, 4, 6, 8)}
NEEDED = 0.3  # the share of the channels of a redundant layer that is read


def planted(data: tas.data.Dataset, seed: int) -> nn.Module:
    """A trained ResNet-20; of five inner layers, nothing reads most of the channels."""
    torch.manual_seed(seed)
    net = tas.models.build("resnet20", num_classes=10, in_channels=1)
    for name in REDUNDANT:
        reader = net.get_submodule(name.replace("conv1", "conv2"))
        assert isinstance(reader, nn.Conv2d)
        width = reader.in_channels
        read = torch.zeros(1, width, 1, 1)
        read[:, torch.randperm(width)[: int(NEEDED * width)]] = 1
        with torch.no_grad():
            reader.weight *= read
        reader.weight.register_hook(lambda grad, read=read: grad * read)  # type: ignore[no-untyped-call]
    tas.train(net, data, Training(epochs=4, batch_size=32, lr=0.05), Session(seed=seed))
    for parameter in net.parameters():
        parameter._backward_hooks = None  # a copy of the network must not have them
    return net


def area_under_the_curve(low: list[float], high: list[float]) -> float:
    """How often a value of the first list is below one of the second; equal ones count half."""
    pairs = list(itertools.product(low, high))
    return sum((a < b) + (a == b) / 2 for a, b in pairs) / len(pairs)


def expected_share(probabilities: Tensor, widths: tuple[int, ...]) -> float:
    return float(probabilities @ torch.tensor(widths).double()) / widths[-1]


def test_the_search_finds_the_layers_that_are_too_wide() -> None:
    data = tas.data.load("digits", validation=0.05)
    net = planted(data, seed=0)
    space = tas.Space.trace(net, data.info.input_shape, search="width")
    found = tas.search(net, data, 0.5, PRESETS["quick"].search("digits"), space=space)
    shares = {name: expected_share(found.probabilities[name], space.widths[name]) for name in INNER}
    redundant = [shares[name] for name in INNER if name in REDUNDANT]
    needed = [shares[name] for name in INNER if name not in REDUNDANT]
    assert area_under_the_curve(redundant, needed) >= 0.9
