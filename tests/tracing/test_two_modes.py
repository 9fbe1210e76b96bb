"""What a network does in one mode only, or at random, is noticed when it is traced."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn

import transformable as tas
from support.agreement import agreeing_space


class Noisy(nn.Module):
    """Scaled in training only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        if self.training:
            y = y * torch.full((1,), 3.0)
        return y + x  # type: ignore[no-any-return]


LINE = Noisy.forward.__code__.co_firstlineno + 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 1), Noisy(), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1))


def test_what_only_training_does_is_warned_of() -> None:
    model = network()
    before = set(vars(model))
    where = rf"it differs from '_tensor_constant0' in '1' \(test_two_modes.py, line {LINE}\) on"
    with pytest.warns(UserWarning, match=where):
        tas.Space.trace(model, (3, 8, 8))
    assert set(vars(model)) == before


def test_a_leaf_keeps_what_only_training_does() -> None:
    model = network()
    space = agreeing_space(model, leaf=["1"])
    assert (space.leaf, set(space.widths)) == (("1",), {"2"})
    assert space.fixed["1"] == "'1' is kept whole"
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    small = tas.slim(model, space, space.smallest)
    assert not torch.allclose(small.eval()(images), small.train()(images))
    # three convolutions at 64 pixels, with 2 channels instead of 8 between the last two
    assert tas.macs(space, space.smallest) == 64 * (3 * 8 + 8 * 8 * 9 + 8 * 2 + 2 * 2)


def test_dropout_as_a_function_is_no_difference() -> None:
    class Dropped(Noisy):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(self.conv(x), 0.5, training=self.training) + x

    model = nn.Sequential(nn.Conv2d(3, 8, 1), Dropped(), nn.Conv2d(8, 2, 1))
    assert len(tas.Space.trace(model, (3, 8, 8)).widths) == 2


@pytest.mark.parametrize("leaf", ["2", "1.convv"])
def test_a_leaf_that_is_not_there(leaf: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), Noisy())
    nearest = {"2": "known: 0, 1, 1.conv", "1.convv": "did you mean '1.conv'?"}[leaf]
    with pytest.raises(ValueError, match="no module") as caught:
        tas.Space.trace(model, (3, 8, 8), leaf=[leaf])
    assert str(caught.value) == f"the network has no module {leaf!r} to keep; {nearest}"


def test_a_leaf_that_is_never_called() -> None:
    class Listed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([nn.Conv2d(3, 8, 1), Attention()])

        def forward(self, x: Tensor) -> Any:
            return self.parts[1](self.parts[0](x))

    with pytest.raises(ValueError, match=r"^the module 'parts' is never called as a whole"):
        tas.Space.trace(Listed(), (3, 8, 8), leaf=["parts"])


class Attention(nn.Module):
    """Of no kind that is known, and with matrix products outside of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.query(x).flatten(2), self.key(x).flatten(2)
        weights = (q.transpose(1, 2) @ k).softmax(-1)
        return x + (x.flatten(2) @ weights).view_as(x)  # type: ignore[no-any-return]


def test_the_macs_of_a_leaf_are_counted() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), Attention(), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1))
    space = agreeing_space(model, leaf=["1"])
    attention = 2 * 64 * 8 * 8 + 2 * 64 * 64 * 8
    assert tas.macs(space, space.full) == 64 * (3 * 8 + 8 * 8 + 8 * 2) + attention
    assert [layer.macs for layer in space.layers if layer.name == "1"] == [attention]


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, 0.5)  # in evaluation too


def test_a_random_forward_is_noticed() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), Random(), nn.Conv2d(8, 2, 1))
    line = Random.forward.__code__.co_firstlineno + 1
    state = torch.get_rng_state()
    with pytest.raises(ValueError, match="is random in evaluation mode too") as caught:
        tas.Space.trace(model, (3, 8, 8))
    assert str(caught.value).startswith(f"'dropout' in '1' (test_two_modes.py, line {line}) is")
    assert torch.equal(torch.get_rng_state(), state)


def test_a_hook_of_the_network_itself_is_noticed() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 2, 1))
    hook = model.register_forward_hook(lambda module, inputs, output: output * 2)
    with pytest.raises(ValueError, match="does not compute what Sequential computes"):
        tas.Space.trace(model, (3, 8, 8))
    hook.remove()
    model.register_forward_hook(lambda module, inputs, output: None)
    assert set(tas.Space.trace(model, (3, 8, 8)).widths) == {"0"}


def test_a_network_that_only_evaluation_can_trace() -> None:
    class Undecided(nn.Sequential):
        def forward(self, x: Any) -> Any:
            x = self[1](self[0](x))
            return -x if self.training and x.sum() > 0 else x

    with pytest.warns(UserWarning, match="torch.fx cannot trace it"):
        tas.Space.trace(Undecided(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 3, 1)), (3, 8, 8))


def test_a_network_that_is_a_graph_already_has_one_graph() -> None:
    with pytest.warns(UserWarning, match="not the same"):
        space = tas.Space.trace(network(), (3, 8, 8))
    small = tas.slim(network(), space, space.full.replace(widths={"0": 4}))
    assert isinstance(small, fx.GraphModule)
    assert set(tas.Space.trace(small, (3, 8, 8)).widths) == {"0", "1.conv", "2"}
