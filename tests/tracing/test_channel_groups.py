"""Groups of channels, and shapes picked from their importance."""

import pytest
import torch

import transformable as tas
from support.method_inputs import network
from support.networks import NETWORKS, DenseNet, PaddedResNet, randomise
from transformable.costing.budget import Budget
from transformable.methods._channel_choice import (
    keep_by_rank,
    keep_by_ratio,
    most_important,
    same_ratio,
)
from transformable.tracing.channel_groups import ChannelGroups


def groups_of(name: str, **options: str) -> ChannelGroups:
    if name in NETWORKS:
        make, size = NETWORKS[name]
        return ChannelGroups(tas.Space.trace(randomise(make()), size, **options))  # type: ignore[arg-type]
    return ChannelGroups(tas.Space.trace(tas.models.build(name), (3, 16, 16), **options))  # type: ignore[arg-type]


def random_scores(groups: ChannelGroups, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {head: torch.rand(size, generator=generator) for head, size in groups.sizes.items()}


def test_layers_that_are_added_are_one_group() -> None:
    groups = groups_of("resnet20")
    streams = {head for name, head in groups.group_of.items() if not name.endswith("conv1")}
    first = "stages.{}.0.conv2"
    assert streams == {"stem.0", first.format(1), first.format(2)}
    inner = [name for name in groups.group_of if name.endswith("conv1")]
    assert [groups.group_of[name] for name in inner] == inner


def test_each_column_is_known_behind_a_concatenation() -> None:
    net = randomise(DenseNet())
    space = tas.Space.trace(net, (3, 16, 16))
    groups = ChannelGroups(space)
    layer = next(each for each in space.layers if each.name == "classifier")
    seen = groups.channels[layer.inputs]
    assert len(seen) == net.get_submodule("classifier").in_features
    # every channel of every group that is read there, once
    assert len(set(seen)) == len(seen)
    assert None not in seen


def test_channels_move_with_the_padding_of_a_shortcut() -> None:
    space = tas.Space.trace(randomise(PaddedResNet()), (3, 16, 16))
    groups = ChannelGroups(space)
    pads = [i for i, layout in enumerate(space.layouts) if type(layout).__name__ == "Placed"]
    assert pads
    for index in pads:
        place = space.layouts[index]
        row = groups.channels[index]
        inner = groups.channels[place.part]  # type: ignore[union-attr]
        assert [row[p] for p in place.positions] == inner  # type: ignore[union-attr]
        assert sum(channel is not None for channel in row) == len(inner)


def test_channels_that_a_padding_moves_keep_their_order() -> None:
    groups = ChannelGroups(tas.Space.trace(randomise(PaddedResNet()), (3, 16, 16)))
    # each stream is padded to the next, or added to one that was; inner layers are not
    streams = {name for name in groups.group_of if not name.endswith(".conv1")}
    assert {groups.group_of[name] for name in streams} == groups.sizes.keys() - groups.movable
    for name in groups.movable:
        assert name.endswith(".conv1")


def test_sums_are_those_of_each_channel_behind_flattened_pixels() -> None:
    groups = groups_of("vgg")
    layer = next(each for each in groups.space.layers if each.name == "classifier.0")
    sums = groups.sum([(layer.inputs, torch.arange(80.0)), (layer.inputs, torch.ones(80))])
    # 20 channels of 2x2 pixels
    assert sums["features.8"].tolist() == [16 * i + 6 + 4 for i in range(20)]
    assert sums["features.0"].tolist() == [0] * 8


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", *NETWORKS])
@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("metric", ["macs", "params"])
def test_picked_shapes_are_inside_the_band(name: str, residual: str, metric: str) -> None:
    groups = groups_of(name, residual=residual)
    scores = random_scores(groups)
    for pick in (keep_by_ratio, keep_by_rank):
        budget = Budget.of(0.5, groups.space, metric=metric)  # type: ignore[arg-type]
        shape = pick(groups, budget, scores)
        assert budget.holds(budget.cost(groups.space, shape))


def test_the_strongest_channels_stay() -> None:
    groups = groups_of("resnet20")
    scores = random_scores(groups)
    scores["stem.0"] = torch.tensor([float(i in (3, 5, 15)) for i in range(16)])
    shape = most_important(groups, scores, {**groups.sizes, "stem.0": 3})
    for name in ("stem.0", "stages.0.0.conv2", "stages.0.2.conv2"):
        assert shape.channels[name] == (3, 5, 15)
    assert shape.widths["stages.0.0.conv1"] == 16


def test_the_rank_is_that_of_the_whole_network() -> None:
    groups = groups_of("resnet20")
    scores = random_scores(groups)
    budget = Budget.of(0.5, groups.space)
    shape = keep_by_rank(groups, budget, scores)
    lost = [
        float(values[i])
        for head, values in scores.items()
        for i in range(len(values))
        if i not in shape.channels[head]
    ]
    kept = [
        float(values[i])
        for head, values in scores.items()
        for i in shape.channels[head]
        if i != int(values.argmax())
    ]
    assert max(lost) < min(kept)


def test_a_group_never_loses_its_last_channel() -> None:
    groups = groups_of("resnet20")
    scores = random_scores(groups)
    scores["stages.0.0.conv1"] = torch.arange(16) * 1e-9
    shape = keep_by_rank(groups, Budget.of(0.5, groups.space), scores)
    assert shape.channels["stages.0.0.conv1"] == (15,)


def test_layers_of_one_width_step_one_after_the_other() -> None:
    net = torch.nn.Sequential(
        *(torch.nn.Conv2d(3 if i == 0 else 4, 4, 3, padding=1) for i in range(6)),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 10),
    )
    space = tas.Space.trace(net, (3, 8, 8))
    # all at once, 4 to 3 channels is 1 to 0.58 of the cost
    budget = Budget.of(0.75, space, tolerance=0.03)
    shape = same_ratio(
        space, budget, space.full.widths, lambda widths: space.full.replace(widths=widths)
    )
    assert budget.holds(budget.cost(space, shape))
    assert set(shape.widths.values()) == {3, 4}


def test_a_band_that_no_ratio_meets_is_refused_with_what_is_near() -> None:
    groups = groups_of("resnet20")
    budget = Budget(metric="macs", value=5_000_000.5, low=5_000_001, high=5_000_001)
    with pytest.raises(
        ValueError,
        match=r"reaches no shape that costs 5,000,001 .* the nearest costs [\d,]+ MACs; use",
    ):
        keep_by_ratio(groups, budget, random_scores(groups))


def test_a_network_that_was_slimmed_before_can_be_picked_from_again() -> None:
    net = randomise(tas.models.build("resnet20"))
    space = tas.Space.trace(net, (3, 16, 16))
    small = tas.slim(net, space, space.full.replace(widths={"stages.1.2.conv2": 20}))
    again = tas.Space.trace(small, (3, 16, 16))
    groups = ChannelGroups(again)
    assert groups.sizes["stages.1.2.conv2"] == 20
    budget = Budget.of(0.5, again)
    for pick in (keep_by_ratio, keep_by_rank):
        shape = pick(groups, budget, random_scores(groups))
        assert budget.holds(budget.cost(again, shape))
        assert tas.slim(small, again, shape).eval()(torch.rand(1, 3, 16, 16)).shape == (1, 10)


def test_where_a_channel_of_a_stream_is_too_much_single_layers_give_way() -> None:
    net, space = network("stream")
    groups = ChannelGroups(space)
    assert len(groups.sizes) == 1
    # 7 of 12 channels are 0.37 of the cost, 8 are 0.47
    budget = Budget.of(0.42, space, tolerance=0.03)
    for pick in (keep_by_ratio, keep_by_rank):
        shape = pick(groups, budget, random_scores(groups))
        assert budget.holds(budget.cost(space, shape))
        assert set(shape.widths.values()) == {7, 8}
        assert tas.slim(net, space, shape)(torch.rand(1, 3, 8, 8)).shape == (1, 4)
