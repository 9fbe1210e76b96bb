"""Channel-wise interpolation: how a narrow feature map is spread over more channels.

Every kind of it is a matrix with at most two entries in a row, so it is kept as that: for each
channel of the wide map the two channels of the narrow one that it comes from, and their weights.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..settings import Align

__all__ = ["matrix", "spread", "tables"]


def spread(narrow: int, wide: int, align: Align) -> tuple[Tensor, Tensor]:
    """For each of `wide` channels two source channels and two weights.

    >>> spread(2, 3, "pool")[0].tolist(), spread(2, 3, "pool")[1].tolist()
    ([[0, 0], [0, 1], [1, 1]], [[1.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    """
    channel = torch.arange(wide)
    if align == "pad":
        sources = channel.clamp(max=narrow - 1)[:, None].expand(-1, 2)
        weights = torch.stack([(channel < narrow).double(), torch.zeros(wide).double()], 1)
    elif align == "pool":
        # the mean over [floor(i n / w), ceil((i + 1) n / w)), which is one channel or two
        first = channel * narrow // wide
        last = -(-(channel + 1) * narrow // wide) - 1
        sources = torch.stack([first, last], 1)
        second = (last > first).double() / 2
        weights = torch.stack([1 - second, second], 1)
    elif align == "linear":
        position = ((channel.double() + 0.5) * narrow / wide - 0.5).clamp(min=0)
        first = position.long()
        last = (first + 1).clamp(max=narrow - 1)
        sources = torch.stack([first, last], 1)
        second = position - first
        weights = torch.stack([1 - second, second], 1)
    else:
        raise ValueError(f"align must be one of pool, linear, pad, not {align!r}")
    return sources, weights


def matrix(narrow: int, wide: int, align: Align) -> Tensor:
    """The same as a matrix, wide x narrow."""
    sources, weights = spread(narrow, wide, align)
    return torch.zeros(wide, narrow).double().scatter_add(1, sources, weights)


def tables(candidates: Sequence[int], align: Align) -> tuple[Tensor, Tensor]:
    """Sources and weights from each candidate width to each that is no narrower.

    Both are (narrow candidate, wide candidate, channel of the widest, 2); channels that a wide
    candidate does not have get the weight 0.
    """
    count, widest = len(candidates), max(candidates)
    sources = torch.zeros(count, count, widest, 2, dtype=torch.long)
    weights = torch.zeros(count, count, widest, 2, dtype=torch.float64)
    for i, narrow in enumerate(candidates):
        for j, wide in enumerate(candidates):
            if narrow <= wide:
                sources[i, j, :wide], weights[i, j, :wide] = spread(narrow, wide, align)
    return sources, weights
