"""Forwards as users write them: what a slim network computes, the supernet computes too."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.agreement import agreeing_space
from support.supernets import draw_of


class Block(nn.Module):
    """A block whose forward is a function of the block, its input and whatever else is given."""

    def __init__(self, run: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        for name, part in parts.items():
            setattr(self, name, part)
        self.run = run

    def forward(self, x: Tensor, *more: Any, **named: Any) -> Any:
        return self.run(self, x, *more, **named)


def plain(block: Any, x: Tensor) -> Tensor:
    return F.relu(block.norm(block.conv(x)))


class Network(nn.Module):
    """A stem, blocks and a head; `run` says how the blocks are called."""

    def __init__(
        self,
        block: Callable[..., Any] = plain,
        run: Callable[[Any, Tensor], Tensor] | None = None,
        container: Callable[..., nn.Module] | None = None,
        **parts: Callable[[], nn.Module],
    ) -> None:
        super().__init__()
        made = [Block(block, **{n: make() for n, make in parts.items()}) for _ in range(3)]
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks: Any = container(made) if container else nn.Sequential(*made)
        self.head = nn.Linear(8, 5)
        self.run = run or (lambda net, x: net.blocks(x))

    def forward(self, x: Tensor) -> Any:
        return self.head(self.run(self, self.stem(x)).mean((2, 3)))


class Defaults(Network):
    def forward(self, x: Tensor, y: Any = None, *, scale: float = 2.0) -> Any:
        x = self.blocks(self.stem(x)) * scale
        return self.head((x if y is None else x + y).mean((2, 3)))


def test_arguments_with_defaults() -> None:
    assert set(agreeing_space(Defaults()).depths) == {"blocks"}


class OnlyDefaults(Network):
    def forward(self, x: Any = None) -> Any:
        return super().forward(x)


def test_images_as_an_argument_with_a_default() -> None:
    assert set(agreeing_space(OnlyDefaults()).depths) == {"blocks"}


# how blocks are called


def by_number(net: Any, x: Tensor) -> Any:
    return net.blocks[2](net.blocks[1](net.blocks[0](x)))


def unpacked(net: Any, x: Tensor) -> Any:
    a, b, c = net.blocks
    return c(b(a(x)))


def one_after_the_other(net: Any, x: Tensor) -> Any:
    for block in net.blocks:
        x = block(x)
    return x


class Backwards(nn.Sequential):
    """A container with a forward of its own, which goes by number."""

    def forward(self, x: Tensor) -> Tensor:
        return self[2](self[1](self[0](x)))  # type: ignore[no-any-return]


def sequence(blocks: list[nn.Module]) -> nn.Module:
    return nn.Sequential(*blocks)


def own_container(blocks: list[nn.Module]) -> nn.Module:
    return Backwards(*blocks)


@pytest.mark.parametrize("container", [sequence, nn.ModuleList])
@pytest.mark.parametrize("run", [by_number, unpacked, one_after_the_other])
def test_blocks_by_number_unpacked_and_in_a_loop(run: Any, container: Any) -> None:
    space = agreeing_space(Network(run=run, container=container), residual="tied")
    assert space.depths == {"blocks": (1, 2, 3)}


def test_a_container_that_goes_by_number_itself() -> None:
    space = agreeing_space(Network(container=own_container), residual="tied")
    assert space.depths == {"blocks": (1, 2, 3)}


def scaled(block: Any, x: Tensor, factor: float = 1.0, *, twice: bool = False) -> Tensor:
    return plain(block, x) * factor * (2 if twice else 1)


def with_more(net: Any, x: Tensor) -> Any:
    for i, block in enumerate(net.blocks):
        x = block(x, 0.5, twice=i > 1)
    return x


def behind_a_number(net: Any, x: Tensor) -> Any:
    for block in net.blocks:
        x = block(0.5, x)
    return x


def with_a_flag(net: Any, x: Tensor) -> Any:
    for block in net.blocks:
        x, flag = block(x)
        assert flag
    return x


@pytest.mark.parametrize("container", [sequence, nn.ModuleList])
@pytest.mark.parametrize(
    ("run", "block"),
    [
        (with_more, scaled),
        (behind_a_number, lambda block, factor, x: scaled(block, x, factor)),
        (with_a_flag, lambda block, x: (plain(block, x), True)),
    ],
)
def test_blocks_that_take_or_give_more_than_a_tensor(run: Any, block: Any, container: Any) -> None:
    space = agreeing_space(Network(block, run, container), residual="tied")
    assert space.depths == {"blocks": (1, 2, 3)}


# in place


def adds_to_its_input(block: Any, x: Tensor) -> Tensor:
    x.add_(1.5)
    return plain(block, x) + x


def clips_its_input(block: Any, x: Tensor) -> Tensor:
    F.relu(x, inplace=True)
    return block.norm(block.conv(x)) + x  # type: ignore[no-any-return]


def calls_a_module_on_its_input(block: Any, x: Tensor) -> Tensor:
    y = block.conv(block.relu(x))
    return block.norm(y) + x  # type: ignore[no-any-return]


def adds_up(block: Any, x: Tensor) -> Tensor:
    before = x
    x += 1.5
    return plain(block, x) + before


def through_an_alias(block: Any, x: Tensor) -> Tensor:
    same = block.same(x)
    x.mul_(0.5)
    return plain(block, same) + x


@pytest.mark.parametrize("residual", ["pad", "tied"])
@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (adds_to_its_input, {}),
        (clips_its_input, {}),
        (calls_a_module_on_its_input, {"relu": lambda: nn.ReLU(inplace=True)}),
        (adds_up, {}),
        (through_an_alias, {"same": nn.Identity}),
    ],
)
def test_blocks_that_change_their_input(block: Any, parts: Any, residual: str) -> None:
    space = agreeing_space(Network(block, **parts), residual=residual)
    assert set(space.depths) == {"blocks"}
    assert space.fixed == {}


def test_a_view_that_is_changed_and_read_whole_is_refused() -> None:
    def run(net: Any, x: Tensor) -> Any:
        x[:, :, 1:].add_(1)
        return net.blocks(x)

    with pytest.raises(ValueError, match=r"'add_' \(test_users_forwards.py, line \d+\)") as caught:
        tas.Space.trace(Network(run=run), (3, 8, 8))
    assert "in place" in str(caught.value)


# channels that are not there stay at zero


@pytest.mark.parametrize(
    "wake",
    [
        lambda x: (2 * x).clamp_(min=0.1),
        lambda x: F.hardtanh(x, 0.1, 1.0),
        lambda x: F.pad(x, (1, 1, 1, 1), value=0.5),
        lambda x: F.elu(x) + 1,
        lambda x: x.exp(),
        lambda x: torch.sigmoid(x),
    ],
)
def test_operations_that_are_not_zero_at_zero(wake: Any) -> None:
    network = Network(run=lambda net, x: wake(net.blocks(wake(x))))
    assert len(agreeing_space(network).widths) == 4


def test_a_module_that_is_not_zero_at_zero() -> None:
    network = Network(
        lambda block, x: block.clip(plain(block, x)), clip=lambda: nn.Hardtanh(0.1, 1.0)
    )
    assert len(agreeing_space(network).widths) == 4


class Offset(nn.Module):
    """Zero to begin with, but it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.value


def test_a_parameter_that_is_zero_now_need_not_stay_zero() -> None:
    torch.manual_seed(0)
    network = Network(lambda block, x: block.offset(plain(block, x)), offset=Offset).double()
    space = tas.Space.trace(network, (3, 8, 8))
    net = tas.SuperNet(network, space, align="pad").double().eval()
    for name, parameter in net.named_parameters():
        if name.endswith("offset.value"):
            parameter.data.fill_(0.7)
    shape = space.smallest
    images = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(net(images, draw_of(net, shape)), net.extract(shape)(images))


class Noise(nn.Module):
    """It adds something in training only."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.5 if self.training else x


def test_what_wakes_channels_in_training_only() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 1), Noise(), nn.Conv2d(8, 2, 1)).double()
    space = tas.Space.trace(network, (3, 4, 4))
    net = tas.SuperNet(network, space, align="pad").double().train()
    images = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    small = tas.slim(network, space, space.smallest).train()
    torch.testing.assert_close(net(images, draw_of(net, space.smallest)), small(images))


# weights that are read elsewhere


def test_a_weight_that_is_read_in_a_forward_keeps_its_size() -> None:
    def run(net: Any, x: Tensor) -> Any:
        return net.blocks(x) * net.blocks[0].conv.weight.mean()

    space = agreeing_space(Network(run=run))
    assert space.fixed["blocks.0.conv"] == "the weights of 'blocks.0.conv' are used more than once"
    assert set(space.widths) == {"blocks.1.conv", "blocks.2.conv"}


def test_a_tied_decoder_keeps_its_size() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
            self.own = self.a.weight

        def forward(self, x: Tensor) -> Any:
            x = self.c(self.b(self.a(x)).relu())
            return F.conv_transpose2d(x, self.own).mean((2, 3))

    space = agreeing_space(Tied())
    assert set(space.widths) == {"b"}
    assert space.fixed["a"] == "the weights of 'a' are used more than once"


# hooks, scripts, types, frozen parameters


def test_a_hook_may_permute_channels() -> None:
    network = Network()
    network.blocks[1].conv.register_forward_hook(lambda module, inputs, output: output.flip(1))
    space = agreeing_space(network)
    assert space.fixed["blocks.1.conv"] == "'blocks.1.conv' has a hook that may change its output"
    assert set(space.widths) == {"stem", "blocks.2.conv"}


def test_hooks_that_only_look_leave_widths_free() -> None:
    network, seen = Network(), list[Any]()
    network.stem.register_forward_hook(lambda module, given, output: seen.append(output.shape))
    network.blocks[1].norm.register_forward_pre_hook(lambda module, given: seen.append(given))
    assert set(agreeing_space(network).widths) == set(agreeing_space(Network()).widths)
    assert seen


class Recorder:
    """A hook that Python cannot copy."""

    def __call__(self, module: nn.Module, given: Any, output: Tensor) -> None:
        pass

    def __deepcopy__(self, _: Any) -> "Recorder":
        raise TypeError("cannot copy")


def test_a_hook_that_cannot_be_copied_keeps_the_width() -> None:
    network = Network()
    network.stem.register_forward_hook(Recorder())
    space = tas.Space.trace(network, (3, 8, 8))
    assert space.fixed["stem"] == "'stem' has a hook that may change its output"


def doubled_in_place(module: nn.Module, given: Any, output: Tensor) -> None:
    output.mul_(2)


def doubled_in_training(module: nn.Module, given: Any, output: Tensor) -> Tensor | None:
    return 2 * output if module.training else None


@pytest.mark.parametrize("hook", [doubled_in_place, doubled_in_training])
def test_hooks_that_act_keep_the_width(hook: Any) -> None:
    network = Network()
    network.stem.register_forward_hook(hook)
    space = tas.Space.trace(network, (3, 8, 8))
    assert space.fixed["stem"] == "'stem' has a hook that may change its output"
    network = Network()
    network.stem.register_forward_pre_hook(lambda module, given: (2 * given[0],))
    space = tas.Space.trace(network, (3, 8, 8))
    assert space.fixed["stem"] == "'stem' has a hook that may change its input or its weights"


def test_a_hook_of_a_block_is_part_of_the_graph() -> None:
    network = Network()
    network.blocks[1].register_forward_hook(lambda module, inputs, output: output * 2)
    assert agreeing_space(network, residual="tied").depths == {"blocks": (1, 2, 3)}


def test_a_scripted_part_is_refused() -> None:
    with warnings.catch_warnings(action="ignore"):  # scripting is deprecated
        scripted = torch.jit.script(nn.Sequential(nn.Conv2d(8, 8, 1), nn.ReLU()))
    network = nn.Sequential(nn.Conv2d(3, 8, 1), scripted, nn.Conv2d(8, 2, 1))
    with pytest.raises(ValueError, match=r"^'1' is a scripted module, of which torch cannot make"):
        tas.Space.trace(network, (3, 8, 8))


def test_a_network_in_bfloat16() -> None:
    torch.manual_seed(0)
    network = Network(lambda block, x: block.noise(plain(block, x)), noise=Noise).bfloat16()
    space = tas.Space.trace(network, (3, 8, 8))
    assert (len(space.widths), space.fixed) == (4, {})
    net = tas.SuperNet(network, space).train()
    images = torch.randn(2, 3, 8, 8, dtype=torch.bfloat16)
    net(images).sum().backward()
    assert net.alpha.grad is not None
    assert net.alpha.grad.isfinite().all()
    shape = space.smallest
    net.eval()
    torch.testing.assert_close(
        net(images, draw_of(net, shape)), net.extract(shape)(images), rtol=0.05, atol=0.02
    )


@pytest.mark.parametrize("wake", [torch.relu, torch.sigmoid])  # zeros stay zero, or not
def test_a_forward_that_casts_to_bfloat16(wake: Any) -> None:
    def run(net: Any, x: Tensor) -> Tensor:
        x = wake(net.blocks(x.to(torch.bfloat16)))
        return x.float()

    torch.manual_seed(0)
    network = Network(run=run)
    network.blocks.bfloat16()
    space = tas.Space.trace(network, (3, 8, 8))
    assert (len(space.widths), len(space.depths), space.fixed) == (4, 1, {})
    net = tas.SuperNet(network, space).train()
    images = torch.randn(2, 3, 8, 8)
    net(images).sum().backward()
    for logits in net.architecture_parameters():
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
        assert logits.grad.any()
    shape = space.smallest
    net.eval()
    torch.testing.assert_close(
        net(images, draw_of(net, shape)), net.extract(shape)(images), rtol=0.05, atol=0.02
    )


def test_frozen_norms_stay_frozen() -> None:
    network = Network()
    for block in network.blocks[:2]:
        block.norm.weight.requires_grad_(False)
        block.norm.bias.requires_grad_(False)
    space = agreeing_space(network)
    net = tas.SuperNet(network, space, sampling="softmax").double()
    small = net.extract(space.smallest)
    frozen = {name for name, p in small.named_parameters() if not p.requires_grad}
    assert frozen == {"blocks.0.norm.weight", "blocks.0.norm.bias"}
    net(torch.randn(2, 3, 8, 8, dtype=torch.float64)).sum().backward()
    before = {n: p.clone() for n, p in net.extract(space.full).named_parameters()}
    torch.optim.SGD(net.weight_parameters(), lr=0.1).step()
    after = dict(net.extract(space.full).named_parameters())
    for i, same in enumerate((True, True, False)):
        for name in (f"blocks.{i}.norm.weight", f"blocks.{i}.norm.bias"):
            assert torch.equal(before[name], after[name]) == same
