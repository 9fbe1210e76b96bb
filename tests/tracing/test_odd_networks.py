"""Things that users' networks do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from support.networks import NETWORKS


class Network(nn.Module):
    """A network from its parts and a function."""

    def __init__(self, run: Callable[[Any, Tensor], Any], **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = run

    def forward(self, x: Tensor) -> Any:
        return self.run(self, x)


def conv(c_in: int, c_out: int, kernel: int = 1) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, kernel, padding=kernel // 2)


def check(network: nn.Module, residual: str = "pad", size: int = 8) -> tas.Space:
    """Costs are right and the slim networks run, for a few random shapes."""
    space = tas.Space.trace(network, (3, size, size), residual=residual)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(0)
    for _ in range(4):
        shape = space.sample(generator)
        small = tas.slim(network, space, shape)
        assert tas.macs(space, shape) == counted_macs(small, (3, size, size))
        assert tas.params(space, shape) == counted_params(small)
        small.train()
        small(torch.rand(2, 3, size, size))
    return space


class DropPath(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (torch.rand(len(x), 1, 1, 1, device=x.device) > 0.5)


def test_stochastic_depth_goes_on_in_a_graph() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x)
        return net.c(x + net.drop(net.b(x)))

    network = Network(run, a=conv(3, 16), b=conv(16, 16), c=conv(16, 2), drop=DropPath())
    space = check(network)
    assert space.fixed == {}
    small = tas.slim(network, space, space.full.replace(widths={"a": 5}))
    assert isinstance(small, fx.GraphModule)
    x = torch.rand(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    assert not torch.equal(small.train()(x), small(x))
    assert torch.equal(small.eval()(x), small(x))


class Shuffle(nn.Module):
    """No parameters, but channels mix."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1) if self.training else x.roll(1, 1)


def test_a_module_that_mixes_channels_is_not_taken_for_one_that_does_not() -> None:
    network = Network(lambda n, x: n.b(n.mix(n.a(x))), a=conv(3, 8), b=conv(8, 2), mix=Shuffle())
    assert check(network).fixed == {"a": "'mix' mixes channels"}


def test_what_only_training_reads_keeps_its_width() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = F.relu(net.a(x))
        main = net.c(net.b(x))
        return (main, net.aux(x)) if net.training else main

    network = Network(run, a=conv(3, 8), b=conv(8, 8), c=conv(8, 2), aux=conv(8, 2))
    with pytest.warns(
        UserWarning, match=r"it differs from 'aux' \(test_odd_networks.py, line \d+\)"
    ):
        space = check(network)
    assert space.fixed == {"a": "it feeds 'aux', which is there only in training"}


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
def test_the_input_itself_may_be_added(residual: str) -> None:
    network = Network(lambda n, x: x + n.b(F.relu(n.a(x))), a=conv(3, 8), b=conv(8, 3))
    assert list(check(network, residual).widths) == ["a"]


def test_weights_in_common_are_counted_once_and_kept() -> None:
    one, two = conv(8, 8), conv(8, 8)
    two.weight = one.weight
    network = Network(lambda n, x: n.c(n.b(n.a(n.s(x)))), s=conv(3, 8), a=one, b=two, c=conv(8, 2))
    space = check(network)
    assert space.widths == {}
    assert space.fixed["a"] == "the weights of 'a' are used more than once"


def test_a_number_of_channels_read_from_another_tensor() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x)
        b, c, h, w = x.shape
        return net.f((x + net.v(x).flip(1).view(b, c, h, w)).mean((2, 3)))

    network = Network(run, a=conv(3, 8), v=conv(8, 8), f=nn.Linear(8, 4))
    for residual in ("pad", "project", "tied"):
        assert set(check(network, residual).widths) <= {"v"}


def test_the_shape_of_another_tensor() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x)
        y = net.b(x).contiguous()
        return net.f((x * y.view(x.shape)).mean((2, 3)))

    space = check(Network(run, a=conv(3, 8), b=conv(8, 8), f=nn.Linear(8, 4)))
    assert (list(space.widths), space.shares) == (["a"], {"b": "a"})


def test_tensors_that_are_split_and_used_as_a_list() -> None:
    def run(net: Any, x: Tensor) -> Any:
        return net.b(torch.cat(net.a(x).chunk(2, 1)[::-1], 1))

    space = check(Network(run, a=conv(3, 8), b=conv(8, 2)))
    assert (space.widths, list(space.fixed)) == ({}, ["a[0]", "a[1]"])


class Hidden(nn.Module):
    """Linear layers in a part that cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(8, 5), nn.Linear(5, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.two(self.one(x.movedim(1, -1))).movedim(-1, 1)
        return y if x.sum() > 0 else -y


class Around(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.hidden, self.after = conv(8, 8), Hidden(), conv(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.hidden(self.before(x)))  # type: ignore[no-any-return]


def test_what_is_around_a_part_that_cannot_be_traced_is_free() -> None:
    network = nn.Sequential(conv(3, 8), Around(), Around(), conv(8, 2))
    space = check(network)
    assert list(space.widths) == ["0", "1.after", "2.after"]
    assert set(space.fixed) == {"1.before", "1.hidden", "2.before", "2.hidden"}


class Flip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = conv(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) + x  # type: ignore[no-any-return]


def test_projections_of_a_network_that_has_projections() -> None:
    network: nn.Module = nn.Sequential(conv(3, 8), Flip(), conv(8, 2))
    space = tas.Space.trace(network, (3, 8, 8), residual="project")
    network = tas.slim(network, space, space.full.replace(widths={"0": 5}))
    space = tas.Space.trace(network, (3, 8, 8), residual="project")
    for widths in ({"0": 3}, {"1.conv": 4}, {"0": 2, "1.conv": 3}):
        shape = space.full.replace(widths=widths)
        small = tas.slim(network, space, shape)
        assert tas.macs(space, shape) == counted_macs(small, (3, 8, 8))


def test_hooks_that_make_weights_keep_them() -> None:
    with pytest.warns(FutureWarning, match="weight_norm"):
        normed = nn.utils.weight_norm(conv(8, 8))
    network = Network(lambda n, x: n.c(n.b(n.a(x))), a=conv(3, 8), b=normed, c=conv(8, 2))
    space = tas.Space.trace(network, (3, 8, 8))
    assert space.widths == {}
    assert space.fixed["b"] == "'b' has a hook that may change its input or its weights"


class Standardised(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight - self.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias)


def test_a_convolution_of_ones_own_kind_is_free() -> None:
    network = nn.Sequential(conv(3, 8), Standardised(8, 8, 1), conv(8, 8), conv(8, 2))
    space = check(network)
    assert (list(space.widths), space.fixed) == (["0", "1", "2"], {})


def test_linear_layers_on_tokens_are_counted_with_their_bias() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x).permute(0, 2, 3, 1)
        return net.c(net.b(x).permute(0, 3, 1, 2))

    check(Network(run, a=conv(3, 8), b=nn.Linear(8, 8), c=conv(8, 2)))


class ClassicGate(nn.Module):
    """Squeeze and excite, spread by expand_as."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = self.fc(F.adaptive_avg_pool2d(x, 1).view(b, c)).view(b, c, 1, 1)
        return x * y.expand_as(x)  # type: ignore[no-any-return]


def test_a_gate_may_be_spread_first() -> None:
    network = nn.Sequential(
        conv(3, 8), nn.InstanceNorm2d(8, affine=True), ClassicGate(), conv(8, 2)
    )
    space = check(network)
    assert (list(space.widths), space.fixed) == (["0", "2.fc.0"], {})
    assert space.shares == {"2.fc.2": "0"}


def test_several_outputs_are_listed() -> None:
    network = Network(lambda n, x: (n.b(n.a(x)), n.a(x)), a=conv(3, 8), b=conv(8, 2))
    space = tas.Space.trace(network, (3, 4, 4))
    assert space.widths == {}
    assert "a" in space.fixed


@pytest.mark.parametrize("parametrize", [weight_norm, spectral_norm])
def test_weights_that_are_computed_from_others_are_fixed(
    parametrize: Callable[[nn.Module], nn.Module],
) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 1),
        nn.ReLU(),
        parametrize(nn.Conv2d(8, 8, 3)),
        nn.ReLU(),
        nn.Conv2d(8, 2, 1),
    ).eval()
    space = tas.Space.trace(model, (3, 4, 4))
    assert space.fixed["2"] == "the weights of '2' are computed from others"
    assert tas.params(space, space.full) == sum(p.numel() for p in model.parameters())
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(tas.slim(model, space, space.full).eval()(x), model(x))


def test_channels_may_be_shuffled_in_any_way() -> None:
    make, input_shape = NETWORKS["channel shuffles"]
    space = tas.Space.trace(make(), input_shape)
    assert space.fixed == {}
    # the stem's channels in the parts that the halves of later blocks take, and what is inside
    assert len(space.widths) == 9


def test_a_function_in_a_long_network_is_run() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x)
        for _ in range(400):
            x = x.relu()
        return net.b(torch.erf(x))

    network = Network(run, a=conv(3, 8), b=conv(8, 2))
    assert tas.Space.trace(network, (3, 4, 4)).fixed == {}


def test_layers_on_parts_of_images_are_counted() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x = net.a(x)
        parts = x.reshape(-1, 4, 8, 8)
        return net.c(net.b(parts).reshape(-1, 8, 8, 8))

    network = Network(run, a=conv(3, 8), b=conv(4, 4), c=conv(8, 2))
    space = check(network)
    assert tas.macs(space, space.full) == 64 * (3 * 8 + 2 * 4 * 4 + 8 * 2)
    assert "b" in space.fixed
