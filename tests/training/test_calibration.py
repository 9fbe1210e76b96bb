"""Samples of images for batch norms: whole batches, one in memory at a time."""

import torch

from transformable.data import from_tensors
from transformable.data.dataset import Split
from transformable.training.calibration import sampled_batches, whole_batches


def some_images(count: int) -> Split:
    images = torch.arange(count).float().view(count, 1, 1, 1).expand(count, 1, 2, 2)
    data = images, torch.arange(count) % 2
    return from_tensors(data, data, validation=0).train


def test_a_last_batch_that_is_smaller_is_left_out() -> None:
    sizes = [len(x) for x, _ in whole_batches(some_images(21), 17, 0, 4)]
    assert sizes == [4, 4, 4, 4]  # of one image a batch norm has no variance


def test_whole_batches_are_the_first_of_the_sample() -> None:
    split = some_images(21)
    sample = torch.cat([x for x, _ in sampled_batches(split, 17, 3, 4)])
    whole = torch.cat([x for x, _ in whole_batches(split, 17, 3, 4)])
    assert torch.equal(whole, sample[:16])
    assert not torch.equal(whole, torch.cat([x for x, _ in whole_batches(split, 17, 4, 4)]))


def test_fewer_images_than_a_batch_are_one_batch() -> None:
    assert [len(x) for x, _ in whole_batches(some_images(3), 100, 0, 8)] == [3]
