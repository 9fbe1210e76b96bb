"""Plain networks, built by name. They know nothing of pruning or search."""

from collections.abc import Callable

from torch import nn

from ..spelling import nearest
from .mobilenet import MobileNetV2
from .resnet import cifar_resnet, imagenet_resnet

__all__ = ["build", "names"]

_BUILDERS: dict[str, Callable[[int, int], nn.Module]] = {
    "resnet20": lambda c, i: cifar_resnet(3, c, i, bottleneck=False),
    "resnet32": lambda c, i: cifar_resnet(5, c, i, bottleneck=False),
    "resnet44": lambda c, i: cifar_resnet(7, c, i, bottleneck=False),
    "resnet56": lambda c, i: cifar_resnet(9, c, i, bottleneck=False),
    "resnet110": lambda c, i: cifar_resnet(18, c, i, bottleneck=False),
    "resnet164": lambda c, i: cifar_resnet(18, c, i, bottleneck=True),
    "resnet18": lambda c, i: imagenet_resnet((2, 2, 2, 2), c, i, bottleneck=False),
    "resnet34": lambda c, i: imagenet_resnet((3, 4, 6, 3), c, i, bottleneck=False),
    "resnet50": lambda c, i: imagenet_resnet((3, 4, 6, 3), c, i, bottleneck=True),
    "mobilenet_v2": MobileNetV2,
}


def names() -> list[str]:
    """The names of the networks that `build` can build."""
    return list(_BUILDERS)


def build(name: str, num_classes: int = 10, in_channels: int = 3) -> nn.Module:
    """A freshly initialised network.

    >>> net = build("resnet20", num_classes=10)
    >>> sum(p.numel() for p in net.parameters())
    272282
    """
    if name not in _BUILDERS:
        hint = nearest(name, _BUILDERS)
        known = "" if hint.startswith("known") else f" known: {', '.join(_BUILDERS)}"
        raise ValueError(f"unknown model {name!r}; {hint}{known}")
    for what, value in (("num_classes", num_classes), ("in_channels", in_channels)):
        if value < 1:
            raise ValueError(f"{what} must be at least 1, not {value}")
    return _BUILDERS[name](num_classes, in_channels)
