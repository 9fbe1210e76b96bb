"""Augmentation of a whole batch (N, C, H, W) at a time, as pure functions.

They take what was drawn as arguments and draw nothing. Images are gathered as they are stored
(uint8) and become float last, which moves a quarter of the bytes.
"""

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["crop", "flip", "normalise"]


def crop(x: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Pad every side with `padding` black pixels and cut image i out at offsets[i] = (row, column).

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> crop(image, torch.tensor([[2, 1]]), padding=1).tolist()
    [[[[3, 4], [0, 0]]]]
    """
    # Black (0 before normalising, not the mean) is what the published recipes pad with.
    padded = functional.pad(x, (padding,) * 4)
    windows = padded.unfold(2, x.shape[2], 1).unfold(3, x.shape[3], 1)
    return windows[torch.arange(len(x)), :, offsets[:, 0], offsets[:, 1]]


def flip(x: Tensor, mask: Tensor) -> Tensor:
    """Mirror the images that `mask` marks, left to right.

    >>> flip(torch.tensor([[[[1, 2]]], [[[3, 4]]]]), torch.tensor([True, False])).flatten().tolist()
    [2, 1, 3, 4]
    """
    out = x.clone()
    out[mask] = x[mask].flip(3)
    return out


def normalise(x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(x - mean) / std by channel, as float32 in channels-last memory.

    >>> x = torch.tensor([0, 100, 255], dtype=torch.uint8).view(1, 3, 1, 1)
    >>> normalise(x, torch.tensor([0.0, 50.0, 255.0]), torch.tensor([1.0, 25.0, 1.0])).flatten()
    tensor([0., 2., 0.])
    """
    n, channels, height, width = x.shape
    # As rows of width x channels: a last axis of three leaves the vector units idle.
    rows = x.permute(0, 2, 3, 1).reshape(n * height, width * channels)
    rows = rows.to(torch.float32, copy=True).sub_(mean.repeat(width)).div_(std.repeat(width))
    return rows.view(n, height, width, channels).permute(0, 3, 1, 2)
