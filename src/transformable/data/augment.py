"""Augmentation of a whole batch (N, C, H, W) at a time, as pure functions.

They take what was drawn as arguments and draw nothing. Images are gathered as they are stored
(uint8) and become float last, which moves a quarter of the bytes.
"""

import torch
from torch import Tensor

__all__ = ["crop", "flip", "normalise"]


def crop(x: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Mirror `padding` pixels over every side and cut image i out at offsets[i] = (row, column).

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> crop(image, torch.tensor([[2, 1]]), padding=1).tolist()
    [[[[3, 4], [1, 2]]]]
    """
    # Mirrored, not black as in the published recipes: a black rim is in no test image, and the
    # statistics of the norms would be those of images that have one.
    rows, columns = (_mirrored(size, padding, x.device) for size in x.shape[2:])
    padded = x.index_select(2, rows).index_select(3, columns)
    windows = padded.unfold(2, x.shape[2], 1).unfold(3, x.shape[3], 1)
    return windows[torch.arange(len(x)), :, offsets[:, 0], offsets[:, 1]]


def _mirrored(size: int, padding: int, device: torch.device) -> Tensor:
    """
    >>> _mirrored(4, 2, torch.device("cpu")).tolist()
    [2, 1, 0, 1, 2, 3, 2, 1]
    """
    position = torch.arange(-padding, size + padding, device=device).abs()
    return torch.where(position >= size, 2 * (size - 1) - position, position).clamp(min=0)


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
