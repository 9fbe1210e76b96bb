"""Which samples come when, how they are augmented, how a set is cut."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from transformable import data
from transformable.data.augment import crop, flip, normalise


def numbered(count: int, *, padding: int = 1, flips: bool = True) -> data.TensorSplit:
    """Images of random pixels whose label is their position."""
    generator = torch.Generator().manual_seed(7)
    images = torch.randint(0, 256, (count, 3, 6, 5), dtype=torch.uint8, generator=generator)
    return data.TensorSplit(
        images=images.contiguous(memory_format=torch.channels_last),
        labels=torch.arange(count),
        mean=torch.tensor([100.0, 110.0, 120.0]),
        std=torch.tensor([50.0, 60.0, 70.0]),
        padding=padding,
        flips=flips,
    )


def literal_crop(x: Tensor, offsets: Tensor, padding: int) -> Tensor:
    n, channels, height, width = x.shape
    out = torch.zeros_like(x)
    for i in range(n):
        for c in range(channels):
            for row in range(height):
                for column in range(width):
                    y = row + int(offsets[i, 0]) - padding
                    z = column + int(offsets[i, 1]) - padding
                    out[i, c, row, column] = x[i, c, mirrored(y, height), mirrored(z, width)]
    return out


def mirrored(position: int, size: int) -> int:
    """Beyond the edge, the way back; the pixel on the edge is there once."""
    if position < 0:
        return -position
    return 2 * (size - 1) - position if position >= size else position


def test_crop_is_the_literal_loop() -> None:
    x = numbered(9).images
    offsets = torch.tensor([[row, column] for row in (0, 2, 4) for column in (0, 1, 4)])
    assert torch.equal(crop(x, offsets, 2), literal_crop(x, offsets, 2))


def test_crop_at_the_padding_changes_nothing() -> None:
    x = numbered(4).images
    assert torch.equal(crop(x, torch.full((4, 2), 3), 3), x)


def test_flip_mirrors_columns_of_marked_images_only() -> None:
    x = numbered(4).images
    before = x.clone()
    out = flip(x, torch.tensor([True, False, False, True]))
    assert torch.equal(out[[1, 2]], x[[1, 2]])
    for i in (0, 3):
        for column in range(5):
            assert torch.equal(out[i, :, :, column], x[i, :, :, 4 - column])
    assert torch.equal(x, before)


def test_normalise_by_channel() -> None:
    x = numbered(2).images
    before = x.clone()
    out = normalise(x, torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0]))
    for c in range(3):
        expected = (x[:, c].to(torch.float32) - (c + 1)) / (c + 4)
        assert torch.equal(out[:, c], expected)
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)


def test_normalise_leaves_float_input_alone() -> None:
    x = torch.ones(1, 1, 2, 2)
    assert normalise(x, torch.tensor([1.0]), torch.tensor([1.0])).tolist() == [[[[0, 0], [0, 0]]]]
    assert x.tolist() == [[[[1, 1], [1, 1]]]]


def test_augmented_batch_is_a_crop_and_flip_of_its_images() -> None:
    split = numbered(8, padding=1)
    views = {}
    for row in range(3):
        for column in range(3):
            cut = literal_crop(split.images, torch.tensor([[row, column]] * 8), 1)
            for flipped in (False, True):
                pixels = cut.flip(3) if flipped else cut
                views[row, column, flipped] = normalise(pixels, split.mean, split.std)
    seen = set()
    for epoch in range(30):
        ((x, y),) = split.shuffled(8, seed=3, epoch=epoch)
        assert sorted(y.tolist()) == list(range(8))
        for image, label in zip(x, y.tolist(), strict=True):
            found = [key for key, view in views.items() if torch.equal(image, view[label])]
            assert len(found) == 1
            seen.update(found)
    assert seen == set(views)  # every offset and both sides are drawn


def test_every_step_epoch_and_seed_is_augmented_anew() -> None:
    one = numbered(16).subset(torch.zeros(32, dtype=torch.int64))  # the same image everywhere
    views = [
        x
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
        for x, _ in one.shuffled(16, seed=seed, epoch=epoch)
    ]
    assert len(views) == 6
    for i, first in enumerate(views):
        for second in views[:i]:
            assert not torch.equal(first, second)


def test_without_padding_and_flips_training_images_are_the_images() -> None:
    split = numbered(8, padding=0, flips=False)
    plain = torch.cat([x for x, _ in split.ordered(3)])
    ((x, y),) = split.shuffled(8, seed=0, epoch=0)
    assert torch.equal(x, plain[y])


def test_ordered_gives_every_sample_once_in_order_and_plain() -> None:
    split = numbered(10)
    got = list(split.ordered(4))
    assert [y.tolist() for _, y in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    expected = (split.images.float() - split.mean.view(3, 1, 1)) / split.std.view(3, 1, 1)
    assert torch.equal(torch.cat([x for x, _ in got]), expected)
    for x, y in got:
        assert x.dtype == torch.float32
        assert y.dtype == torch.int64
        assert x.is_contiguous(memory_format=torch.channels_last)


def test_shuffled_drops_the_short_batch_and_shuffles() -> None:
    split = numbered(103)
    got = [y for _, y in split.shuffled(10, seed=0, epoch=0)]
    assert split.steps(10) == len(got) == 10
    assert all(len(y) == 10 for y in got)
    first = torch.cat(got)
    assert len(set(first.tolist())) == 100
    assert first.tolist() != sorted(first.tolist())
    second = torch.cat([y for _, y in split.shuffled(10, seed=0, epoch=1)])
    other = torch.cat([y for _, y in split.shuffled(10, seed=1, epoch=0)])
    assert first.tolist() != second.tolist() != other.tolist() != first.tolist()


def test_a_split_below_one_batch_is_one_batch() -> None:
    split = numbered(5)
    assert split.steps(64) == 1
    ((x, y),) = split.shuffled(64, seed=0, epoch=0)
    assert x.shape == (5, 3, 6, 5)
    assert sorted(y.tolist()) == [0, 1, 2, 3, 4]


def test_an_empty_split_has_no_batches() -> None:
    split = numbered(5).subset(torch.arange(0))
    assert len(split) == split.steps(4) == 0
    assert list(split.shuffled(4, seed=0, epoch=0)) == []
    assert list(split.ordered(4)) == []


def test_an_epoch_entered_in_the_middle_gives_the_same_bits() -> None:
    split = numbered(50)
    whole = list(split.shuffled(8, seed=5, epoch=2))
    assert len(whole) == 6
    for start in range(7):
        rest = list(split.shuffled(8, seed=5, epoch=2, start=start))
        assert len(rest) == 6 - start
        for (x, y), (u, v) in zip(rest, whole[start:], strict=True):
            assert torch.equal(x, u)
            assert torch.equal(y, v)


@pytest.mark.parametrize("world", [2, 3])
def test_the_ranks_of_a_shuffled_batch_make_up_the_batch(world: int) -> None:
    split = numbered(50)
    ranks = [list(split.shuffled(8, seed=5, epoch=2, rank=r, world=world)) for r in range(world)]
    for step, (x, y) in enumerate(split.shuffled(8, seed=5, epoch=2)):
        for rank in range(world):
            u, v = ranks[rank][step]
            assert torch.equal(u, x[rank::world])
            assert torch.equal(v, y[rank::world])
            assert u.is_contiguous(memory_format=torch.channels_last)


@given(count=st.integers(1, 60), batch=st.integers(1, 12), world=st.integers(1, 4))
def test_ranks_partition_the_ordered_batches(count: int, batch: int, world: int) -> None:
    if batch < world:
        batch = world
    split = numbered(count, padding=0)
    ranks = [
        [y.tolist() for _, y in split.ordered(batch, rank=r, world=world)] for r in range(world)
    ]
    assert sorted(label for got in ranks for labels in got for label in labels) == list(
        range(count)
    )
    assert len({len(got) for got in ranks}) == 1
    if count >= world:
        assert all(labels for got in ranks for labels in got)


def test_the_global_random_state_is_neither_read_nor_moved() -> None:
    split = numbered(20)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = [x for x, _ in split.shuffled(4, seed=0, epoch=0)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    for x, y in zip(first, split.shuffled(4, seed=0, epoch=0), strict=True):
        assert torch.equal(x, y[0])


@pytest.mark.parametrize("size", [0, -3])
def test_impossible_batch_sizes(size: int) -> None:
    split = numbered(4)
    with pytest.raises(ValueError, match=f"batch size must be 1 or more, not {size}"):
        split.shuffled(size, seed=0, epoch=0)
    with pytest.raises(ValueError, match=f"batch size must be 1 or more, not {size}"):
        split.ordered(size)
    with pytest.raises(ValueError, match=f"batch size must be 1 or more, not {size}"):
        split.steps(size)


def test_a_batch_below_one_sample_a_process_is_refused() -> None:
    with pytest.raises(ValueError, match="batch size 2 is too small for 4 processes"):
        numbered(9).shuffled(2, seed=0, epoch=0, world=4)


def test_negative_start_is_refused() -> None:
    with pytest.raises(ValueError, match="start must be 0 or more, not -1"):
        numbered(9).shuffled(2, seed=0, epoch=0, start=-1)


def test_subset_keeps_order_and_pixels() -> None:
    split = numbered(6)
    part = split.subset(torch.tensor([4, 0]))
    assert part.labels.tolist() == [4, 0]
    assert torch.equal(part.images, split.images[[4, 0]])
    assert part.images.is_contiguous(memory_format=torch.channels_last)


def test_stratified_hand_count() -> None:
    labels = torch.tensor([0] * 10 + [1] * 5 + [2] * 1 + [3] * 4)
    rest, part = data.stratified(labels, 0.25, seed=0)
    # 2.5, 1.25, .25 and 1 of 20: five in all, the half one up
    assert labels[part].bincount(minlength=4).tolist() == [3, 1, 0, 1]
    assert labels[rest].bincount(minlength=4).tolist() == [7, 4, 1, 3]
    assert part.dtype == rest.dtype == torch.int64


@given(
    labels=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    fraction=st.floats(0, 1, exclude_max=True),
    seed=st.integers(0, 1000),
)
def test_stratified_properties(labels: list[int], fraction: float, seed: int) -> None:
    given_labels = torch.tensor(labels)
    rest, part = data.stratified(given_labels, fraction, seed)
    assert sorted(rest.tolist() + part.tolist()) == list(range(len(labels)))
    assert rest.tolist() == sorted(rest.tolist())
    assert part.tolist() == sorted(part.tolist())
    for label in set(labels):
        count = labels.count(label)
        assert abs(int((given_labels[part] == label).sum()) - count * fraction) < 1 + 1e-9
        assert label in given_labels[rest].tolist()
    again = data.stratified(given_labels, fraction, seed)
    assert torch.equal(again[0], rest)
    assert torch.equal(again[1], part)


def test_stratified_depends_on_the_seed() -> None:
    labels = torch.arange(200) % 4
    parts = {tuple(data.stratified(labels, 0.1, seed)[1].tolist()) for seed in range(5)}
    assert len(parts) == 5


@pytest.mark.parametrize("fraction", [1.0, -0.1, float("nan")])
def test_impossible_fractions(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\), not"):
        data.stratified(torch.arange(4), fraction, 0)
