"""Adds of tensors of different widths, dropped blocks, and how layers start and change mode."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

__all__ = ["PaddedAdd", "Skipped", "in_mode", "in_order", "initialise", "memory_format_for"]


@contextmanager
def in_mode(model: nn.Module, *, training: bool) -> Iterator[None]:
    """Puts the network into training or evaluation mode; afterwards each module is as before."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def in_order(images: Tensor, memory_format: torch.memory_format) -> Tensor:
    """The images in this order in memory.

    >>> in_order(torch.zeros(2, 3, 4, 4), torch.channels_last).stride()
    (48, 1, 12, 3)
    """
    images = images.contiguous(memory_format=memory_format)
    if memory_format == torch.channels_last:
        return images
    # images of one channel are the same in both orders, but strides may still say channels-last,
    # and a convolution goes by them
    return images.flatten().view(images.shape)


def memory_format_for(network: nn.Module, images: Tensor) -> torch.memory_format:
    """Channels-last, in which convolutions are faster, unless the network fails on such images, as
    one does whose forward says ``x.view(len(x), -1)``.

    >>> memory_format_for(nn.Flatten(), torch.zeros(2, 3, 4, 4))
    torch.channels_last
    """
    if images.ndim != 4:
        return torch.contiguous_format
    images = in_order(images, torch.channels_last)
    with torch.random.fork_rng(devices=[]), torch.no_grad(), in_mode(network, training=False):
        try:
            network(images)
        except RuntimeError:
            return torch.contiguous_format
    return torch.channels_last


class PaddedAdd(nn.Module):
    """Adds each operand at its positions in a tensor of `width` channels.

    >>> add = PaddedAdd(3, (range(3), range(2)))
    >>> add(torch.ones(1, 3, 1, 1), torch.ones(1, 2, 1, 1)).flatten()
    tensor([2., 2., 1.])
    """

    def __init__(self, width: int, positions: Sequence[Sequence[int]]) -> None:
        super().__init__()
        self.width = width
        self.positions = tuple(tuple(p) for p in positions)
        for i, channels in enumerate(self.positions):
            # channel c of the sum reads channel index[c] of the operand, or a zero appended to it
            index = torch.full((width,), len(channels))
            index[list(channels)] = torch.arange(len(channels))
            self.register_buffer(f"index{i}", index, persistent=False)

    def forward(self, *operands: Tensor) -> Tensor:
        first, *rest = (self._place(i, x) for i, x in enumerate(operands))
        for x in rest:
            first = first + x
        return first

    def _place(self, i: int, x: Tensor) -> Tensor:
        channels = self.positions[i]
        if len(channels) == self.width:
            return x
        first, last = channels[0], channels[-1]
        pixels = [0, 0] * (x.ndim - 2)
        if last - first + 1 == len(channels):
            return F.pad(x, (*pixels, first, self.width - last - 1))
        return F.pad(x, (*pixels, 0, 1))[:, getattr(self, f"index{i}")]

    def extra_repr(self) -> str:
        widths = " + ".join(str(len(channels)) for channels in self.positions)
        return f"{widths} -> {self.width}"


class Skipped(nn.Module):
    """Replaces a dropped block: returns its first argument.

    >>> Skipped()(torch.ones(1), 0.5, twice=True)
    tensor([1.])
    """

    def forward(self, x: Tensor, *others: Any, **named: Any) -> Tensor:
        return x


def initialise(network: nn.Module) -> None:
    """Initialise as the paper does: convolutions by Kaiming, linear layers by N(0, .01), biases 0.

    All other layers, such as norms, start as in torch.
    """
    for module in network.modules():
        match module:
            case nn.Conv1d() | nn.Conv2d() | nn.Conv3d():
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            case nn.Linear():
                nn.init.normal_(module.weight, 0, 0.01)
            case _ if hasattr(module, "reset_parameters"):
                reset: Any = module.reset_parameters
                reset()
        if isinstance(module, _ConvNd | nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
