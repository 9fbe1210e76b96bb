"""Users' own torch datasets: the same batches with any number of workers, and after a kill."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from transformable import data
from transformable.data import as_dataset, from_datasets
from transformable.data.items import ItemSplit
from transformable.own_task import own_task


@dataclass
class Noisy:
    """Items of random numbers: the image from torch and numpy, the target its number."""

    count: int = 30
    read: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.read.append(index)
        image = torch.rand(2, 3, 4) + float(np.random.rand()) + random.random()
        return image, index % 3


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Any:
    return model(batch[0]).square().mean()


def score(model: nn.Module, batch: tuple[Tensor, Tensor]) -> float:
    return 1.0


OWN: dict[str, Any] = {"objective": objective, "score": score}


def batches(split: data.Split, **order: int) -> list[tuple[list[float], list[int]]]:
    found = split.shuffled(4, **{"seed": 0, "epoch": 0, **order})
    return [(x.flatten().tolist(), y.tolist()) for x, y in found]


def test_items_are_a_function_of_seed_epoch_and_number_alone() -> None:
    alone, helped = (from_datasets(Noisy(), Noisy(9), workers=workers) for workers in (0, 2))
    whole = batches(alone.train)
    assert len(whole) == 6
    # the random numbers of torch, numpy and random too, in whatever process
    assert batches(helped.train) == whole
    # what a run that is continued at step 4 sees
    assert batches(helped.train, start=4) == whole[4:]
    assert batches(alone.train, start=4) == whole[4:]
    # half of each batch for each of two processes
    halves = [batches(alone.train, rank=rank, world=2) for rank in (0, 1)]
    assert [len(y) for _, y in halves[0]] == [2] * 6
    assert halves[0][3][0] == [v for i in (0, 2) for v in whole[3][0][24 * i : 24 * (i + 1)]]
    pixels = {tuple(x) for x, _ in whole}
    assert not pixels & {tuple(x) for x, _ in batches(alone.train, epoch=1)}
    assert not pixels & {tuple(x) for x, _ in batches(alone.train, seed=1)}


def test_evaluation_is_repeatable_and_leaves_the_callers_random_numbers() -> None:
    split = from_datasets(Noisy(), Noisy(9)).test
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    expected = torch.rand(()), np.random.rand(), random.random()
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    first, again = ([x.flatten().tolist() for x, _ in split.ordered(4)] for _ in range(2))
    assert first == again
    assert (torch.rand(()), np.random.rand(), random.random()) == expected
    x, y = next(split.ordered(9))
    assert x.shape == (9, 2, 3, 4)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert y.tolist() == [0, 1, 2] * 3


def numbers(split: data.Split) -> set[int]:
    assert isinstance(split, ItemSplit)
    return set(split.indexes.tolist())


def test_without_a_test_set_a_fifth_is_held_out_whatever_the_seed() -> None:
    first, second = (from_datasets(Noisy(60), seed=seed) for seed in (0, 1))
    assert numbers(first.test) == numbers(second.test)
    assert numbers(first.validation) != numbers(second.validation)
    assert (len(first.train), len(first.validation), len(first.test)) == (43, 5, 12)
    assert first.test.labels.bincount().tolist() == [4, 4, 4]
    for each in (first, second):
        parts = [numbers(split) for split in (each.train, each.validation, each.test)]
        assert sorted(number for part in parts for number in part) == list(range(60))


class Listed(Noisy):
    classes = ("a", "b", "c", "d")

    def __init__(self, targets: list[int]) -> None:
        super().__init__(len(targets))
        self.targets = targets


def test_labels_are_listed_by_the_dataset_or_read() -> None:
    listed = Listed([number % 3 for number in range(30)])
    found = from_datasets(listed)
    assert set(listed.read) <= set(range(8))
    assert found.info.classes == ("a", "b", "c", "d")
    assert found.train.labels.tolist() == [number % 3 for number in sorted(numbers(found.train))]
    # what is listed is not what the items are: they are read
    other = Listed([1] * 30)
    assert torch.equal(from_datasets(other).train.labels, found.train.labels)
    assert set(other.read) == set(range(30))
    plain = from_datasets(Noisy())
    assert plain.info.classes == ("0", "1", "2")
    assert plain.info.input_shape == (2, 3, 4)


def test_targets_of_any_shape_for_a_task_of_ones_own() -> None:
    images, masks = torch.rand(20, 1, 6, 6), torch.arange(720.0).view(20, 6, 6).double()
    own = from_datasets(TensorDataset(images, masks), TensorDataset(images, masks), **OWN)
    assert repr(own) == (
        "Dataset(TensorDataset: 18 training, 2 validation and 20 test images of 1x6x6)"
    )
    assert repr(own.train) == "ItemSplit(18 images)"
    x, y = next(own.test.ordered(20))
    assert torch.equal(x, images)
    assert torch.equal(y, masks.float())
    assert y.dtype == torch.float32
    assert own.task.scores == ("score",)


def test_arrays_that_are_read_only_are_items_too() -> None:
    image, target = np.arange(16.0).reshape(1, 4, 4), np.array([2.0])
    image.flags.writeable = target.flags.writeable = False
    x, y = next(from_datasets([(image, target)] * 5, **OWN).test.ordered(1))
    assert x.flatten().tolist() == list(range(16))
    assert (x.dtype, y.dtype, y.tolist()) == (torch.float32, torch.float32, [[2.0]])


@pytest.mark.parametrize("workers", [0, 2])
def test_an_item_that_fails_is_named(workers: int) -> None:
    class Broken(Noisy):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            if index == 17:
                raise KeyError("x.png")
            return super().__getitem__(index)

    own = from_datasets(Broken(), Noisy(), workers=workers, **OWN)
    with pytest.raises(
        ValueError,
        match=r"^item 17 of the train dataset fails: KeyError: 'x.png' \(test_items.py, line",
    ):
        list(own.train.shuffled(4, seed=0, epoch=0))


IMAGE = torch.rand(1, 4, 4)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([IMAGE] * 4, "item 0 of the train dataset is a Tensor; give (image, target)"),
        ([(IMAGE, 1, 2)] * 4, "item 0 of the train dataset is a tuple of 3; give (image, target)"),
        ([(IMAGE, {"box": 1})] * 4, "item 0 of the train dataset is (Tensor, dict); give tensors"),
        ([(IMAGE.byte(), 1)] * 4, "has an image of uint8 (1, 4, 4); give float32"),
        ([(IMAGE[0], 1)] * 4, "has an image of float32 (4, 4); give float32 (channels, height"),
        ([(IMAGE[0], 1)] * 4, "; (C, 1, L) for a signal (C, L), with a network whose forward begi"),
        ([(IMAGE, 1), (IMAGE[:, :2], 0)], "images of (1, 2, 4) and of (1, 4, 4) are in one batch"),
        ([(IMAGE, 0.5)] * 4, "is float32 of shape (); give the number of a class, or an objective"),
        ([(IMAGE, [1, 2])] * 4, "is int64 of shape (2,); give the number of a class"),
        ([(IMAGE, 3)] * 4, "the train dataset has no label 0 but has 3"),
        ([], "the train dataset has no items"),
    ],
)
def test_items_that_cannot_be_used(items: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        from_datasets(items)


def test_datasets_that_do_not_fit_together() -> None:
    items = [(IMAGE, number % 2) for number in range(8)]
    with pytest.raises(
        ValueError, match=r"test dataset are \(1, 2, 4\), of the train dataset \(1, 4"
    ):
        from_datasets(items, [(x[:, :2], y) for x, y in items])
    with pytest.raises(ValueError, match="scale both alike"):
        from_datasets(items, [(255 * x, y) for x, y in items])
    with pytest.raises(ValueError, match="workers must be 0 or more, not -1"):
        from_datasets(items, workers=-1)
    with pytest.raises(ValueError, match="there is an objective but no score; give both"):
        from_datasets(items, objective=objective)


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter([])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (DataLoader([1]), "data is a DataLoader; give its dataset, as tas.data.from_datasets("),  # type: ignore[arg-type]
        (Stream(), "data is Stream, an IterableDataset; give one with items by number"),
        ((IMAGE, IMAGE), "made of Tensor; give tas.data.from_tensors((x, y), (x_test, y_test))"),
        (Noisy, "data is the class Noisy; give a dataset of that class"),
        ({"train": []}, "data is dict; give a name, torch datasets (train, test)"),
        (7, "data is int; give a name, torch datasets (train, test)"),
        (([], [], []), "data is a tuple of 3; give (train, test)"),
        ("digit", "unknown dataset 'digit'; did you mean 'digits'?"),
    ],
)
def test_data_that_is_something_else(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        as_dataset(given)


def test_data_by_name_or_as_a_pair() -> None:
    assert repr(as_dataset("digits", seed=1)) == repr(data.load("digits", seed=1))
    pair = as_dataset((Noisy(), Noisy(9)))
    assert (len(pair.train), len(pair.validation), len(pair.test)) == (27, 3, 9)
    digits = data.load("digits")
    assert as_dataset(digits) is digits
    task = own_task(objective, score)
    scored = as_dataset(digits, task)
    assert scored.task is task
    assert scored.train is digits.train


def test_a_list_of_two_datasets_is_a_pair() -> None:
    train, test = (TensorDataset(torch.rand(n, 1, 4, 4), torch.arange(n) % 3) for n in (30, 9))
    given: Any = [train, test]
    dataset = as_dataset(given)
    assert (len(dataset.train) + len(dataset.validation), len(dataset.test)) == (30, 9)
