"""A learning rate for a network that is trained already, wherever it was trained."""

import statistics
from dataclasses import replace
from typing import TypeVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..settings import Training

__all__ = ["filter_size", "how_chosen", "with_learning_rate"]

RATE = 0.0235  # for filters of size 1; docs/results.md says how it was found
LOWEST, HIGHEST = 0.0005, 0.05
WITHOUT_NORMS = 0.0015
FRESH = 0.1
WITH_ROOM = 3.0  # times as large, for a network that has not learnt its training images by heart
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)

Settings = TypeVar("Settings", bound=Training)


def with_learning_rate(
    settings: Settings, network: nn.Module | None, room: float = 0.0
) -> Settings:
    """The same settings; if they leave the learning rate open, with one for this trained network,
    or for one that starts fresh (None). The network's `room_to_learn` makes it larger.

    A norm undoes the scale of the filters in front of it: filters that are twice as large have half
    the gradient, and need steps that are four times as large to turn by the same angle. How large
    they are depends on the weight decay and the length of the training that they come from.

    >>> network = nn.Sequential(nn.Conv2d(8, 8, 1), nn.BatchNorm2d(8))
    >>> _ = nn.init.constant_(network[0].weight, 0.25)
    >>> with_learning_rate(Training(lr=0), network).lr
    0.005875
    """
    if settings.lr:
        return settings
    if network is None:
        return replace(settings, lr=FRESH)
    size = filter_size(network)
    if size is None:  # without norms, three times the steps take a network apart
        return replace(settings, lr=WITHOUT_NORMS)
    lr = min(HIGHEST, max(LOWEST, RATE * size))
    return replace(settings, lr=lr * (1 + (WITH_ROOM - 1) * room))


def how_chosen(settings: Training, network: nn.Module | None) -> str:
    """How ``with_learning_rate`` chooses a learning rate, in words; empty if it is given.

    >>> how_chosen(Training(lr=0), None), how_chosen(Training(lr=0.1), None)
    ('chosen for fresh weights', '')
    """
    if settings.lr:
        return ""
    if network is None:
        return "chosen for fresh weights"
    known = filter_size(network) is not None
    return "chosen from the size of its filters" if known else "chosen for a network without norms"


def filter_size(network: nn.Module) -> float | None:
    """The mean square of the weights of a convolution, where fresh ones (He et al.) have 1, as the
    median over convolutions; None for a network without batch norms, whose filters have the scale
    that they need."""
    modules = [*network.modules()]
    weights = [module.weight for module in modules if isinstance(module, CONVOLUTIONS)]
    if not weights or not any(isinstance(module, _BatchNorm) for module in modules):
        return None
    # in one memory format, so that a network that was read from a file has the same to the last bit
    weights = [weight.detach().contiguous() for weight in weights]
    return statistics.median(float(w.square().mean()) * w[0].numel() / 2 for w in weights)
