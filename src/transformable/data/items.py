"""A user's own torch datasets: items (image, target) with transforms and workers of their own."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data import Dataset as TorchDataset

from ..own_task import OwnObjective, OwnScore, own_task
from ..seeds import generator
from ..task import Classification
from ..user_code import first_line
from .dataset import Batches, Dataset, Info, Split
from .fingerprint import of_tensors
from .stratify import stratified
from .tensors import check_same_scale, count_classes
from .workers import ignore_stop_signals, loaded

__all__ = ["ItemSplit", "Items", "from_datasets"]

TEST_SHARE = 0.2  # of one dataset without a test set
LOOKED_AT = 8  # items that are read to see what the images are
BATCH = 64


class Items(Protocol):
    """A map-style dataset, such as ``torch.utils.data.Dataset``: items by number."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ItemSplit(Split):
    """A ``Split`` whose samples are items of a user's dataset."""

    items: Items
    indexes: Tensor
    """Which of the items."""
    workers: int
    """Processes that load items; with 0 this process does. The items do not depend on it."""
    part: str
    """What the dataset is for, in messages: train or test."""

    def subset(self, indexes: Tensor) -> Self:
        return replace(self, indexes=self.indexes[indexes], labels=self.labels[indexes])

    def _augmented(self, plan: dict[int, Tensor], seed: int, epoch: int, own: slice) -> Batches:
        return self._batches([each[own] for each in plan.values()], (seed, epoch))

    def _plain(self, plan: list[Tensor]) -> Batches:
        return self._batches(plan, ())

    def _batches(self, plan: list[Tensor], key: tuple[int, ...]) -> Batches:
        if not plan:
            return
        loader = DataLoader(
            _SeededItems(self.items, self.part, key),
            batch_sampler=[self.indexes[each].tolist() for each in plan],
            collate_fn=_collate,
            num_workers=min(self.workers, len(plan)),
            worker_init_fn=ignore_stop_signals,
            # its own, because a loader otherwise draws from the global one at every epoch
            generator=torch.Generator(),
        )
        for batch in loaded(loader):
            if isinstance(batch, str):
                raise ValueError(batch)
            x, y = map(torch.from_numpy, batch)
            yield x.contiguous(memory_format=torch.channels_last), y


class _SeededItems(TorchDataset[Any]):
    """The items of a user's dataset, each a function of its number and a key: the generators of
    torch, numpy and random are seeded before it is made.

    For items that cannot be used, an error message is returned: an exception that crosses processes
    becomes pages of traceback.
    """

    def __init__(self, items: Items, part: str, key: tuple[int, ...]) -> None:
        self.items, self.part, self.key = items, part, key

    def __getitems__(self, indexes: list[int]) -> list[tuple[Tensor, Tensor]] | str:
        inside_worker = get_worker_info() is not None
        with nullcontext() if inside_worker else _same_random_state_after():
            try:
                return [self._item(index) for index in indexes]
            except ValueError as error:
                return str(error)

    def _item(self, index: int) -> tuple[Tensor, Tensor]:
        seeds = generator("item", *self.key, index).integers(2**32, size=3).tolist()
        torch.default_generator.manual_seed(seeds[0])
        np.random.seed(seeds[1])
        random.seed(seeds[2])
        where = f"item {index} of the {self.part} dataset"
        try:
            item = self.items[index]
        except Exception as error:
            raise ValueError(f"{where} fails: {first_line(error)}") from error
        return _image_and_target(item, where)


@contextmanager
def _same_random_state_after() -> Iterator[None]:
    """Restores the caller's random state afterwards."""
    states = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _image_and_target(item: Any, where: str) -> tuple[Tensor, Tensor]:
    """An item as tensors; a ValueError says what is wrong with it."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        count = f" of {len(item)}" if isinstance(item, tuple | list) else ""
        raise ValueError(f"{where} is a {type(item).__name__}{count}; give (image, target)")
    try:
        image, target = map(_as_tensor, item)
    except (TypeError, ValueError, RuntimeError):
        kinds = ", ".join(type(part).__name__ for part in item)
        raise ValueError(f"{where} is ({kinds}); give tensors, arrays or numbers") from None
    if image.ndim != 3 or not image.is_floating_point():
        signal = (
            ": (1, H, W) for a grey image; (C, 1, L) for a signal (C, L), with a network whose "
            "forward begins with x = x.squeeze(2)"
        )
        raise ValueError(
            f"{where} has an image of {str(image.dtype)[6:]} {tuple(image.shape)}; give float32 "
            "(channels, height, width), scaled as the network wants it" + signal * (image.ndim == 2)
        )
    return image.float(), target.float() if target.is_floating_point() else target


def _as_tensor(part: Any) -> Tensor:
    # a copy of an array: torch warns of those that are read-only, such as memory maps
    return torch.as_tensor(np.array(part) if isinstance(part, np.ndarray) else part).detach()


def _collate(items: list[tuple[Tensor, Tensor]] | str) -> tuple[Any, Any] | str:
    """A batch as arrays, because tensors travel in shared memory, of which containers have little;
    or a message."""
    if isinstance(items, str):
        return items
    batch = []
    for what, parts in zip(("images", "targets"), zip(*items, strict=True), strict=True):
        shapes = sorted({tuple(part.shape) for part in parts})
        if len(shapes) > 1:
            return f"{what} of {shapes[0]} and of {shapes[1]} are in one batch; give all one size"
        batch.append(torch.stack(parts).numpy())
    return batch[0], batch[1]


def from_datasets(
    train: Items,
    test: Items | None = None,
    *,
    validation: float = 0.1,
    seed: int = 0,
    workers: int = 0,
    name: str | None = None,
    classes: tuple[str, ...] | None = None,
    objective: OwnObjective | None = None,
    score: OwnScore | None = None,
) -> Dataset:
    """A dataset of your own torch datasets, whose items are (image, target).

    Images are float (C, H, W), all of one size; the transforms are yours. ``seed`` selects the
    fraction ``validation`` of the training items. Without ``test``, a fifth of the items, the same
    for every seed, is the test set. ``workers`` processes load the items.

    The random numbers that an item draws from the global generators of torch, numpy and random
    depend on the seed, the epoch and the item alone, not on workers or interruptions.

    Targets are the numbers of classes. They are taken from the attribute ``targets`` of the dataset
    if it has one; if not, every item is read once. With an ``objective`` and a ``score`` (those of
    ``prune``), targets are numbers or tensors of any shape.

    >>> items = [(torch.rand(3, 8, 8), number % 2) for number in range(50)]
    >>> from_datasets(items)
    Dataset(list: 36 training, 4 validation and 10 test images of 3x8x8, 2 classes)
    """
    if workers < 0:
        raise ValueError(f"workers must be 0 or more, not {workers}")
    task = own_task(objective, score) or Classification()
    whole = _split(train, "train", workers)
    tested = None if test is None else _split(test, "test", workers)
    seen = _first_images(whole, tested)
    channels, height, width = seen["train"].shape[1:]
    if task == Classification():
        whole = replace(whole, labels=_labels(whole))
        tested = None if tested is None else replace(tested, labels=_labels(tested))
        classes = classes or _class_names(train, whole, tested)
    if tested is None:
        rest, part = stratified(whole.labels, TEST_SHARE, seed=0)
        whole, tested = whole.subset(rest), whole.subset(part)
    rest, part = stratified(whole.labels, validation, seed)
    # of a dataset in a user's code, only the labels and the first images are read here
    known = [*seen.values(), whole.labels, tested.labels]
    return Dataset(
        info=Info(
            name=name or type(train).__name__,
            input_shape=(channels, height, width),
            num_classes=len(classes or ()),
            classes=classes or (),
            pixels=False,
        ),
        train=whole.subset(rest),
        validation=whole.subset(part),
        test=tested,
        task=task,
        fingerprint=of_tensors(*known),
    )


def _split(items: Items, part: str, workers: int) -> ItemSplit:
    if not len(items):
        raise ValueError(f"the {part} dataset has no items")
    count = len(items)
    return ItemSplit(
        items=items,
        indexes=torch.arange(count),
        labels=torch.zeros(count, dtype=torch.long),
        workers=workers,
        part=part,
    )


def _first_images(train: ItemSplit, test: ItemSplit | None) -> dict[str, Tensor]:
    """The first images of each dataset; a ValueError if those of both are not alike."""
    seen = {}
    for split in (train, test):
        if split is not None:
            first = replace(split, workers=0).subset(torch.arange(min(LOOKED_AT, len(split))))
            seen[split.part], _ = next(first.ordered(LOOKED_AT))
    if test is not None:
        shapes = [tuple(images.shape[1:]) for images in seen.values()]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"images of the test dataset are {shapes[1]}, of the train dataset {shapes[0]}; "
                "they must be alike"
            )
        check_same_scale(seen["train"], seen["test"], "the train dataset", "the test dataset")
    return seen


def _labels(split: ItemSplit) -> Tensor:
    """The class of each item."""
    _, first = next(replace(split, workers=0).subset(torch.arange(1)).ordered(1))
    if first.shape != (1,) or first.dtype in (torch.bool,) or first.is_floating_point():
        raise ValueError(
            f"the target of an item of the {split.part} dataset is {str(first.dtype)[6:]} of shape "
            f"{tuple(first.shape[1:])}; give the number of a class, or an objective and a score"
        )
    known = getattr(split.items, "targets", None)
    if known is not None and getattr(split.items, "target_transform", None) is None:
        try:
            labels = torch.as_tensor(known)
        except (TypeError, ValueError, RuntimeError):
            labels = torch.empty(0)
        if labels.shape == (len(split),) and labels[0] == first[0]:
            return labels.long()
    return torch.cat([y for _, y in split.ordered(BATCH)]).long()


def _class_names(items: Any, train: ItemSplit, test: ItemSplit | None) -> tuple[str, ...]:
    names: Any = getattr(items, "classes", None)
    test_labels = train.labels if test is None else test.labels
    highest = max(int(train.labels.max()), int(test_labels.max()))
    if isinstance(names, Sequence) and not isinstance(names, str) and len(names) > highest:
        return tuple(map(str, names))
    count = count_classes(train.labels, test_labels, "the train dataset", "the test dataset")
    return tuple(map(str, range(count)))
