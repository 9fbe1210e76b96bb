"""Augmentation of whole batches (N, C, H, W) as pure functions of images and random numbers.

Images stay uint8 until they are normalised, which moves a quarter of the bytes.
"""

import torch
from torch import Tensor

__all__ = ["crop", "flip", "normalise"]

AT_ONCE = 2**15 - 1  # values that stay in the cache, and that torch does not share between threads


def crop(x: Tensor, offsets: Tensor, padding: int) -> Tensor:
    """Pad by reflection, then cut image i out at offsets[i] = (row, column).

    >>> image = torch.tensor([[[[1, 2], [3, 4]]]])
    >>> crop(image, torch.tensor([[2, 1]]), padding=1).tolist()
    [[[[3, 4], [1, 2]]]]
    """
    # reflected, not black as in published training code: no test image has a black rim, which would
    # enter the statistics of the batch norms
    rows, columns = (_reflected(size, padding, x.device) for size in x.shape[2:])
    padded = x.index_select(2, rows).index_select(3, columns)
    windows = padded.unfold(2, x.shape[2], 1).unfold(3, x.shape[3], 1)
    return windows[torch.arange(len(x)), :, offsets[:, 0], offsets[:, 1]]


def _reflected(size: int, padding: int, device: torch.device) -> Tensor:
    """The index of the pixel at each position of a padded row: 2 1 0 1 2 3 2 1 for 4 pixels."""
    position = torch.arange(-padding, size + padding, device=device).abs()
    return torch.where(position >= size, 2 * (size - 1) - position, position).clamp(min=0)


def flip(x: Tensor, mask: Tensor) -> Tensor:
    """Mirror the images where ``mask`` is true, left to right.

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
    # as rows of width x channels, because a last axis of three leaves the vector units idle; some
    # rows at a time, so that they are in the cache from one operation to the next, and no second
    # thread takes the processor from those that decode photos
    rows = x.permute(0, 2, 3, 1).reshape(n * height, width * channels)
    out = torch.empty(rows.shape, device=x.device)
    means, stds = mean.repeat(width), std.repeat(width)
    at_once = AT_ONCE if x.device.type == "cpu" else x.numel()
    some = max(1, at_once // (width * channels))
    for pixels, normalised in zip(torch.split(rows, some), torch.split(out, some), strict=True):
        normalised.copy_(pixels).sub_(means).div_(stds)
    return out.view(n, height, width, channels).permute(0, 3, 1, 2)
