"""Split a set in two so that both parts keep the proportions of the classes."""

import numpy as np
import torch
from torch import Tensor

from ..seeds import generator

__all__ = ["stratified"]


def stratified(labels: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Sorted indexes (rest, part), with ``fraction`` of each class, to within one sample, in part.

    Every class keeps at least one sample in the rest.

    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1, 1])
    >>> rest, part = stratified(labels, 0.5, seed=0)
    >>> labels[rest].tolist(), labels[part].tolist()
    ([0, 0, 1, 1, 1], [0, 0, 1, 1, 1])
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be in [0, 1), not {fraction}")
    values = labels.numpy()
    classes, counts = np.unique(values, return_counts=True)
    wanted = counts * fraction
    taken = np.floor(wanted).astype(np.int64)
    # the samples lost by rounding down go to the classes that lost most
    for index in np.argsort(taken - wanted, kind="stable")[: round(wanted.sum()) - taken.sum()]:
        if taken[index] + 1 < counts[index]:
            taken[index] += 1
    chosen = np.zeros(len(values), dtype=bool)
    random = generator("stratified", seed)
    for label, size in zip(classes, taken, strict=True):
        chosen[random.permutation(np.flatnonzero(values == label))[:size]] = True
    return torch.from_numpy(np.flatnonzero(~chosen)), torch.from_numpy(np.flatnonzero(chosen))
