"""Torch-Pruning as a method: its own networks, read back as shapes."""

import copy
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch_pruning as tp
from torch import nn

from support.method_inputs import context, network
from transformable.costing.budget import BandError, Budget
from transformable.methods import load_method
from transformable.methods import torch_pruning as module
from transformable.methods.torch_pruning import make_pruner, prune_until
from transformable.slimming.slim import slim
from transformable.tracing.space import Space

METHODS = ["torch-pruning", "torch-pruning-sparse"]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize(
    "name", ["resnet20", "small mobilenet", "vgg", "densenet", "pre-activation"]
)
def test_the_shape_gives_the_network_that_it_was_read_from(name: str, norm: int) -> None:
    model, space = network(name)
    theirs = copy.deepcopy(model)
    full = Budget.of(1.0, space).cost(space, space.full)

    def small(shape: Any) -> bool:
        return Budget.of(1.0, space).cost(space, shape) < 0.45 * full

    shape = prune_until(theirs, make_pruner(theirs, space, norm=norm), space, small)
    assert small(shape)
    assert set(shape.channels) == set(space.full.widths)
    ours = slim(model, space, shape)
    for (key, value), (other, same) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert key == other
        assert torch.equal(value, same), key
    images = torch.rand(4, *space.input_shape)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(images), theirs.eval()(images))


def test_the_weakest_channels_by_hand() -> None:
    """One hidden layer: a group is a filter and the weights that read it."""
    conv, linear = nn.Conv2d(3, 4, 1, bias=False), nn.Linear(4, 2, bias=False)
    net = nn.Sequential(conv, nn.Flatten(), linear)
    with torch.no_grad():
        # sums of |w|: of the filters 3, 6, 9, 12, of the readers 8, 2, 2, 2
        conv.weight.copy_(torch.tensor([1.0, -2, 3, 4])[:, None, None, None].expand(4, 3, 1, 1))
        linear.weight.copy_(torch.tensor([[4.0, 1, -1, 1], [4, 1, 1, 1]]))
    space = Space.trace(net, (3, 1, 1))
    # 4 channels cost 20, 3 cost 15: the mean of filter 1, (6 + 2) / 2, is the smallest
    budget = Budget(metric="macs", value=15, low=15, high=15)
    found = load_method("torch-pruning")(net, space, budget, context(1))
    assert found.shape.channels == {"0": (0, 2, 3)}
    assert found.cost == 15
    assert found.passes == 0


@pytest.mark.parametrize("name", METHODS)
def test_the_target_not_the_edge_of_the_band(name: str) -> None:
    model, space = network("resnet20")
    for tolerance in (0.005, 0.05):
        budget = Budget.of(0.5, space, tolerance=tolerance)
        found = load_method(name)(model, space, budget, context())
        # the groups of 64 are small steps
        assert 0.995 * budget.value <= found.cost <= budget.value


@pytest.mark.parametrize("name", METHODS)
def test_where_its_steps_are_coarse(name: str) -> None:
    model, space = network("stream")
    # 7 of 12 channels are 0.37 of the cost, 8 are 0.47
    with pytest.raises(BandError, match=r"Torch-Pruning comes to 68,576 MACs, outside of 76,052"):
        load_method(name)(model, space, Budget.of(0.42, space, tolerance=0.03), context())
    # the first at or below the target is below the band: the one above is inside
    budget = Budget.of(0.46, space, tolerance=0.03)
    found = load_method(name)(model, space, budget, context())
    assert budget.value < found.cost <= budget.high
    assert set(found.shape.widths.values()) == {8}


@pytest.mark.parametrize("name", METHODS)
def test_networks_that_it_fails_on_are_refused_with_a_line(name: str) -> None:
    for net in ("padded resnet", "squeeze-and-excite"):
        model, space = network(net)
        size = space.input_shape[1]
        with pytest.raises(ValueError, match=r"^Torch-Pruning fails on this network: .+") as found:
            load_method(name)(model, space, Budget.of(0.5, space), context(size))
        assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["grouped convolutions", "split channels"])
def test_channels_that_it_cuts_in_another_way(name: str) -> None:
    net, space = network(name)
    with pytest.raises(ValueError, match="cuts grouped or split channels in another way"):
        load_method("torch-pruning")(net, space, Budget.of(0.5, space), context())


def test_a_network_that_is_no_part_of_the_unpruned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model, space = network("vgg")

    def other(net: nn.Module, *arguments: Any) -> Any:
        shape = prune_until(net, *arguments)
        with torch.no_grad():
            next(net.parameters()).mul_(2)
        return shape

    monkeypatch.setattr(module, "prune_until", other)
    with pytest.raises(ValueError, match="what is left is not part of the unpruned network"):
        load_method("torch-pruning")(model, space, Budget.of(0.5, space), context(16))


def test_the_penalty_is_that_of_its_pruner_before_each_step() -> None:
    """Two steps by hand, with its own regularize where its README has it."""
    model, space = network("vgg")
    settings = context(16, epochs=1)
    searching = replace(
        settings.searching, batch_size=18, momentum=0.0, weight_decay=0.0, warmup_epochs=0.0
    )
    settings = replace(settings, searching=searching)
    net = copy.deepcopy(model)
    pruner = make_pruner(net, space, norm=2, sparse=True)
    with module._penalised(pruner, net):
        settings.train(net)
    assert pruner.cnt == 2

    twin = copy.deepcopy(model)
    theirs = tp.pruner.GroupNormPruner(
        twin.eval(),
        torch.zeros(2, 3, 16, 16),
        importance=tp.importance.GroupMagnitudeImportance(p=2),
        reg=5e-4,
        ignored_layers=[twin.get_submodule("classifier.2")],
        in_channel_groups={},
        out_channel_groups={},
    )
    twin.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.02)
    batches = settings.dataset.train.shuffled(18, seed=0, epoch=0)
    # half a cosine over two steps: the whole rate, then none
    for lr, (x, y) in zip((0.02, 0.0), batches, strict=True):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        nn.functional.cross_entropy(twin(x), y).backward()  # type: ignore[no-untyped-call]
        theirs.regularize(twin)
        optimizer.step()
    for (key, value), same in zip(net.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(value, same, msg=key)
    # and it is gone afterwards
    before = pruner.cnt
    settings.train(copy.deepcopy(model))
    assert pruner.cnt == before


def test_without_torch_pruning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_pruning", None)
    model, space = network("vgg")
    with pytest.raises(ValueError, match=r"needs torch-pruning; install it by pip install"):
        load_method("torch-pruning")(model, space, Budget.of(0.5, space), context(16))
