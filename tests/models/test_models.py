import pytest
import torch
from torch import nn

from transformable import models


@pytest.mark.parametrize("name", models.names())
def test_every_network_runs_on_other_channels_classes_and_odd_sizes(name: str) -> None:
    size = 33 if name in ("resnet20", "resnet32", "resnet44", "resnet56") else 65
    network = models.build(name, num_classes=7, in_channels=1).eval()
    assert network(torch.zeros(2, 1, size, size)).shape == (2, 7)


def test_published_parameter_counts() -> None:
    counts = {
        name: sum(p.numel() for p in models.build(name, 1000).parameters())
        for name in ("resnet18", "resnet34", "resnet50", "mobilenet_v2")
    }
    assert counts == {
        "resnet18": 11689512,
        "resnet34": 21797672,
        "resnet50": 25557032,
        "mobilenet_v2": 3504872,
    }


def test_initialisation_is_the_papers() -> None:
    torch.manual_seed(0)
    network = models.build("resnet110")
    convs = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    for conv in convs:
        fan_out = conv.out_channels * conv.kernel_size[0] ** 2
        assert conv.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.2)
        assert conv.bias is None
    linear = network.classifier
    assert isinstance(linear, nn.Linear)
    assert linear.weight.std().item() == pytest.approx(0.01, rel=0.2)
    assert torch.equal(linear.bias, torch.zeros(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("resnet_20",),
            "unknown model 'resnet_20'; did you mean 'resnet20'.*known: resnet20, resnet32",
        ),
        (("zebra",), "unknown model 'zebra'; known: resnet20"),
        (("resnet20", 0), "num_classes must be at least 1, not 0"),
        (("resnet20", 10, 0), "in_channels must be at least 1, not 0"),
    ],
)
def test_bad_arguments_are_named(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        models.build(*arguments)  # type: ignore[arg-type]
