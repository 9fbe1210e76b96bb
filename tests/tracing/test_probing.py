"""What a module of any class does to channels, and what a network with such modules may change."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from support.families import FAMILIES, NormAct, Scaled, ScaledStdConv, permuted_axes
from transformable.tracing.probing import (
    children_behind_norm,
    keeps_channels_apart,
    makes_channels_by_itself,
    standardises_inputs,
)

SHAPE = (2, 6, 4, 4)


class ResponseNorm(nn.Module):
    """ConvNeXt V2: it mixes channels, but not with the zeros that it starts with."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        size: Tensor = torch.linalg.vector_norm(x, dim=(2, 3), keepdim=True)
        return x + self.weight.view(-1, 1, 1) * x * size / (size.mean(1, keepdim=True) + 1e-6)


class ByPosition(nn.Module):
    """Each channel by itself, but not all of them alike."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.arange(x.shape[1]).view(-1, 1, 1)


class MixesInTraining(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True) if self.training else x


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = F.layer_norm(x.movedim(1, -1), self.normalized_shape, self.weight, self.bias)
        return x.movedim(-1, 1)


@pytest.mark.parametrize(
    ("module", "apart"),
    [
        (nn.BatchNorm2d(6), True),
        (NormAct(6, nn.Softplus()), True),
        (Scaled(6), True),
        (nn.InstanceNorm2d(6, affine=True), True),
        (nn.PReLU(6), True),
        (nn.Dropout2d(0.5), True),
        (nn.AvgPool2d(2), True),
        (ResponseNorm(), False),
        (LayerNorm2d(6), False),
        (nn.GroupNorm(2, 6), False),
        (ByPosition(), False),
        (MixesInTraining(), False),
        (nn.Conv2d(6, 6, 3, padding=1, groups=6), False),  # it has nine numbers for a channel
    ],
)
def test_channels_are_apart(module: nn.Module, apart: bool) -> None:
    assert keeps_channels_apart(module, SHAPE) == apart


def test_blocks_of_channels_and_other_axes() -> None:
    assert keeps_channels_apart(nn.GroupNorm(2, 6), SHAPE, unit=3)
    assert not keeps_channels_apart(nn.GroupNorm(2, 6), SHAPE, unit=2)
    assert not keeps_channels_apart(nn.LayerNorm(6), (2, 4, 4, 6), axis=3)


class Squared(nn.Linear):
    """A layer of a class of its own whose outputs depend on all others."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).softmax(1)


def test_layers_of_a_class_of_their_own() -> None:
    assert makes_channels_by_itself(ScaledStdConv(6, 4), "conv", SHAPE)
    assert standardises_inputs(ScaledStdConv(6, 4), "conv", SHAPE)
    assert not standardises_inputs(nn.Conv2d(6, 4, 3), "conv", SHAPE)
    assert not makes_channels_by_itself(Squared(6, 4), "linear", (2, 6))


def test_the_activation_inside_a_norm_is_found() -> None:
    act = nn.Softplus()
    found = children_behind_norm(NormAct(6, act), SHAPE)
    assert found is not None
    assert found[-1] is act

    class Before(NormAct):
        def forward(self, x: Tensor) -> Tensor:
            return F.batch_norm(self.act(x), self.running_mean, self.running_var)

    assert children_behind_norm(Before(6, act), SHAPE) is None


FREE = {
    "grouped convolutions": (6, {"3.0.layers.0": 3, "3.1.layers.0": 3, "4": 2}, 1),
    "norms with activations": (5, {}, 1),
    "standardised convolutions": (6, {}, 1),
    "group norms": (
        6,
        {"4.0.layers.0": 4, "4.0.layers.3": 2, "4.1.layers.0": 4, "4.1.layers.3": 2},
        1,
    ),
    "permuted axes": (6, {}, 1),
    "channel shuffles": (9, {}, 0),
    "split channels": (11, {}, 0),
    "u-net": (5, {}, 0),
    "signals": (6, {}, 1),
    "volumes": (6, {}, 1),
}


@pytest.mark.parametrize("name", FREE)
def test_what_may_change(name: str) -> None:
    make, input_shape = FAMILIES[name]
    space = tas.Space.trace(make(), input_shape)
    assert (len(space.widths), space.units, len(space.depths)) == FREE[name]
    norm = {"5": "'6' has groups of 10 channels"} if name == "group norms" else {}
    assert space.fixed == norm
    assert tas.macs(space, space.smallest) <= 0.3 * tas.macs(space, space.full)


def test_beside_a_layer_norm_only_hidden_layers_may_change() -> None:
    net = permuted_axes(norm=True).eval()
    space = tas.Space.trace(net, (3, 8, 8))
    assert list(space.widths) == ["1.0.fc1", "1.1.fc1", "1.1.fc2", "2"]
    assert space.fixed["0"] == "'1.0.norm' mixes channels"
    shape = space.full.replace(widths={"1.0.fc1": 5, "1.1.fc1": 7})
    small = tas.slim(net, space, shape)
    assert tas.macs(space, shape) == counted_macs(small, (3, 8, 8))
    assert tas.params(space, shape) == counted_params(small)


def test_widths_that_tear_a_block_apart_are_refused() -> None:
    make, input_shape = FAMILIES["grouped convolutions"]
    net = make()
    space = tas.Space.trace(net, input_shape)
    with pytest.raises(ValueError, match=r"'3.0.layers.0' keeps or loses blocks of 3 channels"):
        tas.slim(net, space, space.full.replace(widths={"3.0.layers.0": 5}))
    torn = tas.Shape({**space.full.widths, "4": 2}, space.full.depths, channels={"4": (1, 2)})
    with pytest.raises(ValueError, match=r"'4' keeps or loses blocks of 2 channels"):
        tas.macs(space, torn)
