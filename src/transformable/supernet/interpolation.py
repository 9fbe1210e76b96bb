"""Channel-wise interpolation (CWI): how a narrow feature map is aligned with a wider one.

It is linear along channels, and every channel of the wide map depends on at most two channels of
the narrow one. So it is stored sparsely: two source channels and two weights per wide channel.
"""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from ..settings import Align
from .channel_matrix import DENSE_UP_TO, ChannelMatrix

__all__ = ["interpolate", "interpolate_candidates", "interpolation_matrix"]


def interpolate(narrow: int, wide: int, align: Align) -> tuple[Tensor, Tensor]:
    """The source channels and the weights of each wide channel, both (wide, 2).

    >>> sources, weights = interpolate(2, 3, "pool")
    >>> sources.tolist(), weights.tolist()
    ([[0, 0], [0, 1], [1, 1]], [[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    """
    channel = torch.arange(wide)
    if align == "pad":
        first = last = channel.clamp(max=narrow - 1)
        weights = torch.stack([(channel < narrow).double(), torch.zeros(wide).double()], 1)
        return torch.stack([first, last], 1), weights
    if align == "pool":
        # the mean over [floor(i n / w), ceil((i + 1) n / w)), which is one channel or two
        first = channel * narrow // wide
        last = -(-(channel + 1) * narrow // wide) - 1
        second = (last > first).double() / 2
    elif align == "linear":
        position = ((channel.double() + 0.5) * narrow / wide - 0.5).clamp(min=0)
        first = position.long()
        last = (first + 1).clamp(max=narrow - 1)
        second = position - first
    else:
        raise ValueError(f"align must be one of pool, linear, pad, not {align!r}")
    return torch.stack([first, last], 1), torch.stack([1 - second, second], 1)


@lru_cache(maxsize=1000)
def interpolation_matrix(
    narrow: int, wide: int, size: int, align: Align, dtype: torch.dtype, device: torch.device
) -> ChannelMatrix:
    """The same as a matrix (size, size), zero outside of its wide x narrow corner; sparse if it is
    large."""
    sources, weights = interpolate(narrow, wide, align)
    columns = torch.zeros(size, 2, dtype=torch.long)
    values = torch.zeros(size, 2, dtype=torch.float64)
    columns[:wide], values[:wide] = sources, weights
    mix = ChannelMatrix(values.to(device=device, dtype=dtype), None, columns.to(device))
    return mix if size > DENSE_UP_TO else ChannelMatrix(mix.matrix())


def interpolate_candidates(candidates: Sequence[int], align: Align) -> tuple[Tensor, Tensor]:
    """Sources and weights from each candidate width to each candidate that is as wide or wider.

    Both are (narrow candidate, wide candidate, channel of the widest, 2). Channels that the wide
    candidate does not have get weight 0.
    """
    count, widest = len(candidates), max(candidates)
    sources = torch.zeros(count, count, widest, 2, dtype=torch.long)
    weights = torch.zeros(count, count, widest, 2, dtype=torch.float64)
    for i, narrow in enumerate(candidates):
        for j, wide in enumerate(candidates):
            if narrow <= wide:
                sources[i, j, :wide], weights[i, j, :wide] = interpolate(narrow, wide, align)
    return sources, weights
