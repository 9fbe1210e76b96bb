"""Convert what a user gives as data to a ``Dataset``."""

from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from ..own_task import OwnTask
from .catalogue import load
from .dataset import Dataset
from .items import Items, from_datasets

__all__ = ["Data", "as_dataset"]

Data = Dataset | str | Items | tuple[Items, Items]
"""A dataset, the name of one, a torch dataset, or a pair of them: (train, test)."""


def as_dataset(data: Data, task: OwnTask | None = None, *, seed: int = 0) -> Dataset:
    """``data`` as a dataset with this task, or with the one that it has.

    >>> as_dataset("digits")
    Dataset(digits: 1366 training, 72 validation and 359 test images of 1x16x16, 10 classes)
    """
    if isinstance(data, str):
        data = load(data, seed=seed)
    if isinstance(data, Dataset):
        return data if task is None else replace(data, task=task)
    if isinstance(data, list) and len(data) == 2 and all(map(_is_dataset, data)):
        data = (data[0], data[1])
    _check(data)
    parts = data if isinstance(data, tuple) else (data,)
    if task is None:
        return from_datasets(*parts, seed=seed)
    objective, score = task.own_objective, task.own_score
    return from_datasets(*parts, seed=seed, objective=objective, score=score)


def _is_dataset(part: Any) -> bool:
    """Whether it is a dataset rather than an item of one."""
    return isinstance(part, TorchDataset) and not isinstance(part, IterableDataset)


def _check(data: Any) -> None:
    """Raise a ValueError that says what to give instead of this data."""
    parts = data if isinstance(data, tuple) else (data,)
    if len(parts) > 2:
        raise ValueError(f"data is a tuple of {len(parts)}; give (train, test)")
    for part in parts:
        kind = type(part).__name__
        if isinstance(part, DataLoader):
            raise ValueError(
                "data is a DataLoader; give its dataset, as "
                "tas.data.from_datasets(train, test, workers=2)"
            )
        if isinstance(part, IterableDataset):
            raise ValueError(f"data is {kind}, an IterableDataset; give one with items by number")
        if isinstance(part, Tensor | np.ndarray | tuple):
            raise ValueError(
                f"data is made of {kind}; give tas.data.from_tensors((x, y), (x_test, y_test))"
            )
        if isinstance(part, type):
            raise ValueError(f"data is the class {part.__name__}; give a dataset of that class")
        if not (hasattr(part, "__getitem__") and hasattr(part, "__len__")) or isinstance(
            part, dict
        ):
            raise ValueError(
                f"data is {kind}; give a name, torch datasets (train, test), or a tas.data.Dataset"
            )
