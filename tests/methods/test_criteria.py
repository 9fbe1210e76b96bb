"""The rules by which filters are chosen, against cases worked out by hand and torch-pruning."""

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch_pruning as tp
from torch import Tensor, nn

import transformable as tas
from support.method_inputs import context, network
from transformable.costing.budget import Budget
from transformable.methods import load_method
from transformable.methods._criteria import filter_norms
from transformable.methods.fpgm import summed_distances
from transformable.methods.network_slimming import PENALTY, norm_scales, sparse_objective
from transformable.methods.sfp import zero_filters
from transformable.methods.taylor import Gates
from transformable.slimming.slim import slim
from transformable.task import cross_entropy
from transformable.tracing.channel_groups import ChannelGroups


def two_layers() -> tuple[nn.Sequential, ChannelGroups]:
    """Four filters, a norm, and a layer that reads them."""
    net = nn.Sequential(
        nn.Conv2d(1, 4, 1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 2, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(2, 3),
    )
    return net, ChannelGroups(tas.Space.trace(net, (1, 4, 4)))


def test_pfec_keeps_the_largest_sums_of_absolute_weights() -> None:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )
    weights = torch.tensor([[1.0, -1.0], [0.1, 3.0], [-0.5, -0.4], [0.0, -2.5]])
    net[0].weight.data = weights.view(4, 2, 1, 1)
    groups = ChannelGroups(tas.Space.trace(net, (2, 4, 4)))
    torch.testing.assert_close(
        filter_norms(net, groups, p=1)["0"], torch.tensor([2.0, 3.1, 0.9, 2.5])
    )
    budget = Budget.of(0.5, groups.space, tolerance=0.2)
    found = load_method("pfec")(net, groups.space, budget, context())
    assert found.shape.channels["0"] == (1, 3)
    small: Any = found.model
    assert torch.equal(small[0].weight, weights.view(4, 2, 1, 1)[[1, 3]])


def test_fpgm_drops_the_filters_nearest_to_the_geometric_median() -> None:
    # five points: the fourth is their geometric median, the fifth the next nearest to all
    points = torch.tensor([[4.0, 0.0], [-4.0, 0.0], [0.0, 4.0], [0.0, 0.0], [0.0, -3.0]])
    by_hand = torch.tensor(
        [
            8 + 32**0.5 + 4 + 5,
            8 + 32**0.5 + 4 + 5,
            2 * 32**0.5 + 4 + 7,
            4 + 4 + 4 + 3,
            5 + 5 + 7 + 3,
        ]
    )
    torch.testing.assert_close(summed_distances(points), by_hand)
    net = nn.Sequential(
        nn.Conv2d(2, 5, 1, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 2)
    )
    net[0].weight.data = points.view(5, 2, 1, 1)
    space = tas.Space.trace(net, (2, 4, 4))
    found = load_method("fpgm")(net, space, Budget.of(0.6, space, tolerance=0.1), context())
    assert found.shape.channels["0"] == (0, 1, 2)


def test_a_gate_is_worth_the_square_of_its_gradient() -> None:
    torch.manual_seed(0)
    net, groups = two_layers()
    net.double()
    net[1].weight.data = torch.tensor([1.0, 0.5, -0.3, 2.0]).double()
    net[1].bias.data = torch.tensor([0.2, 0.1, 0.4, -0.1]).double()
    x, y = torch.rand(6, 1, 4, 4).double(), torch.arange(6) % 3
    gates = Gates(net, groups)
    net.double().train()
    F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    worth = gates.importance()["0"]

    def loss(i: int, value: float) -> float:
        net[1].gate[i] = value  # type: ignore[operator]
        result = float(F.cross_entropy(net(x), y).detach())
        net[1].gate[i] = 1.0  # type: ignore[operator]
        return result

    step = 1e-6
    by_differences = [(loss(i, 1 + step) - loss(i, 1 - step)) / (2 * step) for i in range(4)]
    torch.testing.assert_close(
        worth.double(), torch.tensor(by_differences).double() ** 2, rtol=1e-4, atol=1e-12
    )


@pytest.mark.parametrize(
    "norm",
    [nn.BatchNorm2d(4, affine=False), nn.InstanceNorm2d(4), nn.InstanceNorm2d(4, affine=True)],
)
def test_gates_stand_behind_any_norm_that_would_undo_them(norm: nn.Module) -> None:
    torch.manual_seed(0)
    net, _ = two_layers()
    net[1] = norm
    groups = ChannelGroups(tas.Space.trace(net, (1, 4, 4)))
    gates = Gates(net, groups)
    net.train()
    x, y = torch.rand(6, 1, 4, 4), torch.arange(6) % 3
    F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    # before a norm the gradient would be rounding, 1e-12
    assert gates.importance()["0"].max() > 1e-8


@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", "vgg", "pre-activation"])
def test_closed_gates_compute_what_the_slim_network_computes(name: str) -> None:
    net, space = network(name)
    groups = ChannelGroups(space)
    gated = copy.deepcopy(net).eval()
    gates = Gates(gated, groups)
    half = {head: list(range(0, size, 2)) for head, size in groups.sizes.items()}
    shape = groups.shape(half)
    gates.close(shape)
    assert gates.shape() == shape
    x = torch.rand(2, *space.input_shape)
    small = slim(net, space, shape).eval()
    with torch.no_grad():
        torch.testing.assert_close(gated(x), small(x), rtol=1e-4, atol=1e-5)
    gates.remove()
    assert set(gated.state_dict()) == set(net.state_dict())
    with torch.no_grad():
        assert torch.equal(gated(x), net.eval()(x))


def test_taylor_closes_gates_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    net, space = network("resnet20")
    seen = []
    close = Gates.close

    def noted(self: Gates, shape: tas.Shape) -> None:
        seen.append(tas.macs(space, shape) / tas.macs(space, space.full))
        close(self, shape)

    monkeypatch.setattr(Gates, "close", noted)
    found = load_method("taylor")(net, space, Budget.of(0.4, space), context(epochs=3))
    for got, wanted in zip(seen, (0.8, 0.6, 0.4), strict=True):
        assert got == pytest.approx(wanted, abs=0.02)
    assert tas.macs(space, found.shape) / tas.macs(space, space.full) == seen[-1]


def test_slimming_is_punished_for_scales() -> None:
    net, groups = two_layers()
    net[1].weight.data = torch.tensor([1.0, -0.5, 0.0, 2.0])
    x, y = torch.rand(6, 1, 4, 4), torch.arange(6) % 3
    with_penalty = sparse_objective(groups, cross_entropy())(net, x, y)
    plain = F.cross_entropy(net(x), y)
    torch.testing.assert_close(with_penalty["loss"] - plain, torch.tensor(PENALTY * 3.5))


def test_channels_without_a_norm_go_last() -> None:
    net, space = network("vgg")
    groups = ChannelGroups(space)
    found = norm_scales(net, groups)
    assert found["classifier.0"].isinf().all()
    norm: Any = net.get_submodule("features.1")
    torch.testing.assert_close(found["features.0"], norm.weight.detach().abs())


def test_slimming_without_norms_is_refused() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    space = tas.Space.trace(net, (3, 8, 8))
    with pytest.raises(ValueError, match=r"slimming needs batch norms.* try pfec"):
        load_method("slimming")(net, space, Budget.of(0.5, space), context())


def test_soft_pruned_filters_are_zero_and_may_come_back() -> None:
    net, space = network("resnet20")
    groups = ChannelGroups(space)
    kept = {head: list(range(0, size, 2)) for head, size in groups.sizes.items()}
    zero_filters(net, groups, groups.shape(kept))
    for layer in groups.makers():
        weight: Any = net.get_submodule(layer.name).weight
        alive = weight.flatten(1).abs().sum(1) > 0
        head, _ = next(channel for channel in groups.channels[layer.outputs] if channel)
        assert alive.nonzero().flatten().tolist() == kept[head]
    # the network that is left computes the same but for what norms make of zeros
    assert filter_norms(net, groups, p=2)["stem.0"][1] == 0


def test_sfp_prunes_after_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformable.methods import sfp

    calls = []
    soft = sfp.zero_filters

    def noted(net: nn.Module, groups: ChannelGroups, shape: tas.Shape) -> None:
        calls.append(shape)
        soft(net, groups, shape)

    monkeypatch.setattr(sfp, "zero_filters", noted)
    net, space = network("resnet20")
    found = sfp.sfp(net, space, Budget.of(0.5, space), context(epochs=3))
    assert len(calls) == 3
    assert found.shape == calls[-1]


def their_scores(net: nn.Module, layer: str, size: int, criterion: Any, prune: Any) -> Tensor:
    """torch-pruning's own groups, from its own tracing."""
    graph = tp.DependencyGraph().build_dependency(net, torch.rand(2, 3, size, size))
    group = graph.get_pruning_group(net.get_submodule(layer), prune, list(range(16)))
    scores: Tensor = criterion(group)
    return scores


INNER = "stages.0.1.conv1"


def test_pfec_ranks_as_torch_pruning() -> None:
    net, space = network("resnet20")
    criterion = tp.importance.MagnitudeImportance(p=1, group_reduction="first", normalizer=None)
    theirs = their_scores(net, INNER, 8, criterion, tp.prune_conv_out_channels)
    ours = filter_norms(net, ChannelGroups(space), p=1)[INNER]
    assert ours.argsort().tolist() == theirs.argsort().tolist()


def test_slimming_ranks_as_torch_pruning() -> None:
    net, space = network("resnet20")
    criterion = tp.importance.BNScaleImportance(normalizer=None)
    # of an inner layer, and of one whose channels several layers share
    for layer in (INNER, "stem.0"):
        theirs = their_scores(net, layer, 8, criterion, tp.prune_conv_out_channels)
        ours = norm_scales(net, ChannelGroups(space))[layer]
        torch.testing.assert_close(ours, theirs)


def test_fpgm_ranks_as_torch_pruning_where_no_weight_is_negative() -> None:
    net, space = network("resnet20")
    conv: Any = net.get_submodule(INNER)
    conv.weight.data.abs_()
    found = load_method("fpgm")(net, space, Budget.of(0.5, space), context())
    # theirs compares absolute weights, and counts the layers that read the filter too
    both = tp.importance.FPGMImportance(p=1, group_reduction="first", normalizer=None)
    theirs = their_scores(net, INNER, 8, both, tp.prune_conv_out_channels)
    kept = found.shape.channels[INNER]
    assert sorted(theirs.argsort(descending=True)[: len(kept)].tolist()) == list(kept)


def test_taylor_ranks_as_torch_pruning_where_both_see_the_filter() -> None:
    # without a norm, the gate stands behind the filter; torch-pruning multiplies the filter's
    # weights with their gradients, which is the same but for the bias
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, bias=False),
        nn.ReLU(),
        nn.Conv2d(16, 8, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    groups = ChannelGroups(tas.Space.trace(net, (3, 8, 8)))
    x, y = torch.rand(8, 3, 8, 8), torch.arange(8) % 4
    gates = Gates(net, groups)
    net.train()
    F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    ours = gates.importance()["0"]
    gates.remove()
    criterion = tp.importance.TaylorImportance(
        group_reduction="first", normalizer=None, multivariable=True
    )
    theirs = their_scores(net, "0", 8, criterion, tp.prune_conv_out_channels)
    torch.testing.assert_close(ours, theirs**2, rtol=1e-4, atol=1e-10)


def test_uniform_is_as_wide_as_torch_pruning_at_the_same_ratio() -> None:
    net, space = network("resnet20", 16)
    found = load_method("uniform")(net, space, Budget.of(0.5, space), context(16))
    kept = found.shape.widths["stages.2.0.conv1"] / 64
    pruner = tp.pruner.MagnitudePruner(
        net,
        torch.rand(2, 3, 16, 16),
        importance=tp.importance.MagnitudeImportance(p=1),
        pruning_ratio=1 - kept,
        ignored_layers=[m for m in net.modules() if isinstance(m, nn.Linear)],
    )
    pruner.step()
    theirs = {
        name: module.out_channels
        for name, module in net.named_modules()
        if isinstance(module, nn.Conv2d)
    }
    for name, width in found.shape.widths.items():
        assert abs(theirs[name] - width) <= 1, name
