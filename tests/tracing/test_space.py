from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from support.families import FAMILIES
from support.networks import NETWORKS, VGG, DenseNet, ReusedReluBlock, ReusedReluResNet, SENet
from transformable import Shape, Space, macs, models


def trace(name: str, size: int = 16, **options: Any) -> Space:
    return Space.trace(models.build(name), (3, size, size), **options)


def test_candidates_are_the_papers() -> None:
    space = trace("resnet20")
    assert space.widths["stem.0"] == (4, 6, 8, 9, 11, 12, 14, 16)
    assert space.widths["stages.1.0.conv1"] == (9, 12, 16, 19, 22, 25, 28, 32)
    assert space.widths["stages.2.2.conv2"] == (19, 25, 32, 38, 44, 51, 57, 64)
    assert space.depths == {f"stages.{i}": (1, 2, 3) for i in range(3)}
    assert trace("resnet110").depths["stages.0"] == tuple(range(1, 19))
    assert space.count == 8**19 * 3**3


def test_small_layers_have_fewer_candidates() -> None:
    space = Space.trace(
        nn.Sequential(nn.Conv2d(3, 3, 1), nn.Conv2d(3, 2, 1), nn.Conv2d(2, 1, 1)), (3, 4, 4)
    )
    assert space.widths == {"0": (1, 2, 3), "1": (1, 2)}


def test_options_of_the_space() -> None:
    assert trace("resnet20", ratios=(0.5, 1.0, 1.25)).widths["stem.0"] == (8, 16, 20)
    assert trace("resnet20", divisor=8).widths["stages.1.0.conv1"] == (8, 16, 24, 32)
    assert trace("resnet110", depth_step=2).depths["stages.2"] == (*range(1, 19, 2), 18)
    assert set(trace("resnet20", search="depth").widths.values()) == {(16,), (32,), (64,)}
    assert set(trace("resnet20", search="width").depths.values()) == {(3,)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"residual": "zero"}, "residual must be one of pad, project, tied, not 'zero'"),
        ({"search": "all"}, "search must be one of both, width, depth, not 'all'"),
        ({"ratios": (0.5, 0)}, r"ratios must be above 0, not \(0.5, 0\)"),
        ({"ratios": ()}, "ratios must be above 0"),
        ({"ratios": (float("nan"),)}, "ratios must be above 0"),
        ({"ratios": (0.25, 2.0)}, r"ratios above 1 need 1 beside them.*: add 1 to \(0.25, 2.0\)"),
        ({"divisor": 1.5}, "divisor must be a whole number of at least 1, not 1.5"),
        ({"divisor": 0}, "divisor must be a whole number of at least 1, not 0"),
        ({"depth_step": 0}, "depth_step must be a whole number of at least 1, not 0"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trace("resnet20", **options)


def test_layers_are_in_order_of_execution_and_shortcuts_follow_their_block() -> None:
    space = trace("resnet50", 64)
    names = ["stem.0"]
    for stage, blocks in enumerate((3, 4, 6, 3)):
        names += [f"stages.{stage}.{b}.conv{i}" for b in range(blocks) for i in (1, 2, 3)]
    assert list(space.widths) == names
    assert space.shares == {f"stages.{i}.0.shortcut.0": f"stages.{i}.0.conv3" for i in range(4)}
    assert space.fixed == {}


def test_a_shortcut_that_runs_before_its_block_follows_it_all_the_same() -> None:
    space = Space.trace(SENet(), (3, 16, 16))
    assert space.shares["down.shortcut.0"] == "down.conv2"


def test_tied_streams_share_one_width() -> None:
    space = trace("resnet20", residual="tied")
    stream = {"stages.0.0.conv2", "stages.0.1.conv2", "stages.0.2.conv2"}
    assert {name for name, head in space.shares.items() if head == "stem.0"} == stream
    assert len(space.widths) == 1 + 9 + 2


def test_gates_and_depthwise_convolutions_have_no_width_of_their_own() -> None:
    space = Space.trace(SENet(), (3, 16, 16))
    per_block = ("conv1", "conv2", "se.fc1")
    blocks = ("blocks.0", "blocks.1", "blocks.2", "down")
    assert list(space.widths) == [
        "stem.0",
        *(f"{b}.{layer}" for b in blocks for layer in per_block),
    ]
    assert {space.shares[f"{b}.se.fc2"] == f"{b}.conv2" for b in blocks} == {True}
    assert space.depths == {"blocks": (1, 2, 3)}


def test_dense_blocks_are_no_stages_and_a_flat_chain_of_layers_is_none() -> None:
    assert Space.trace(DenseNet(), (3, 16, 16)).depths == {}
    vgg = Space.trace(VGG(), (3, 16, 16))
    assert vgg.depths == {}
    assert list(vgg.widths) == ["features.0", "features.4", "features.8", "classifier.0"]


class Odd(nn.Module):
    """A grouped convolution, a shared one, an unknown operation, a part that cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.grouped = nn.Conv2d(8, 4, 3, padding=1, groups=2)
        self.free = nn.Conv2d(4, 8, 1)
        self.before = nn.Conv2d(8, 8, 1)
        self.shared = nn.Conv2d(8, 8, 1)
        self.sorted = nn.Conv2d(8, 8, 1)
        self.branching = Branching()
        self.scale = nn.Parameter(torch.ones(8, 1, 1))
        self.last = nn.Conv2d(8, 6, 1)
        self.fc = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.free(self.grouped(self.stem(x)))
        x = self.shared(F.relu(self.shared(self.before(x))))
        x = torch.sort(self.sorted(x), dim=1).values
        x = self.branching(x) * self.scale
        return self.fc(self.last(x).mean((2, 3)))  # type: ignore[no-any-return]


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) if x.sum() > 0 else self.conv(-x)  # type: ignore[no-any-return]


LINE_OF_BRANCH = Branching.forward.__code__.co_firstlineno + 1


def test_what_cannot_change_is_left_alone_and_named() -> None:
    space = Space.trace(Odd(), (3, 8, 8))
    assert set(space.widths) == {"free", "last"}
    assert set(space.fixed) == {"stem", "grouped", "before", "shared", "sorted", "branching"}
    reason = "'grouped' is a grouped convolution (2 groups) with fewer outputs"
    assert space.fixed["stem"] == space.fixed["grouped"] == reason
    assert space.fixed["before"] == "the weights of 'shared' are used more than once"
    assert space.fixed["sorted"] == "'sort' is not supported"
    assert space.fixed["branching"].startswith("'branching' cannot be traced: TraceError: symbolic")
    assert space.fixed["branching"].endswith(f"(test_space.py, line {LINE_OF_BRANCH})")


def test_unknown_parts_are_counted_all_the_same() -> None:
    odd = Odd().eval()
    space = Space.trace(odd, (3, 8, 8))
    convs = 3 * 8 * 9 + 4 * 4 * 9 + 4 * 8 + 8 * 8 + 2 * 8 * 8 + 8 * 8 + 8 * 8 + 8 * 6
    assert macs(space, space.full) == 64 * convs + 6 * 4 + 4


def test_a_network_that_cannot_be_traced_at_all_says_why() -> None:
    with pytest.raises(ValueError, match=r"torch.fx cannot trace Branching: .*submodule") as error:
        Space.trace(Branching(), (8, 4, 4))
    assert "\n" not in str(error.value)
    assert f"(test_space.py, line {LINE_OF_BRANCH})" in str(error.value)


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 1, 1)])
def test_an_input_that_does_not_fit_is_named(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=rf"does not take an input of \({shape[0]}, "):
        Space.trace(VGG(), shape)


class Optional(nn.Module):
    """Arguments that may be left out, and a branch weighed by one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), nn.Conv2d(8, 2, 1)
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor, mask: Tensor | None = None, log: bool = False) -> Tensor:
        x = self.a(x)
        x = x + self.weight * self.b(x)
        if mask is not None:
            x = x * mask
        x = self.c(x)
        return x.log_softmax(1) if log else x


def test_arguments_that_may_be_left_out_are_left_out() -> None:
    space = Space.trace(Optional(), (3, 4, 4))
    assert (set(space.widths), space.fixed) == ({"a", "b"}, {})
    assert macs(space, space.full) == 16 * (3 * 8 + 8 * 8 + 8 * 2)


class Tapped(nn.Module):
    """The middle of the container is read from outside, so that no block of it can go."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU()) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        first = self.blocks[0](self.stem(x))
        return self.blocks[2](self.blocks[1](first)) + first  # type: ignore[no-any-return]


def test_a_container_whose_middle_is_read_elsewhere_is_no_stage() -> None:
    assert Space.trace(Tapped(), (3, 4, 4)).depths == {}


@pytest.mark.parametrize("training", [True, False])
def test_tracing_leaves_the_network_as_it_was(training: bool) -> None:
    network = models.build("mobilenet_v2").train(training)
    network.get_submodule("stages.3").eval()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    modes = [module.training for module in network.modules()]
    Space.trace(network, (3, 32, 32))
    assert [module.training for module in network.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_samples_are_uniform_over_the_candidates() -> None:
    space = trace("resnet20")
    generator = torch.Generator().manual_seed(0)
    shapes = [space.sample(generator) for _ in range(2000)]
    depths = Counter(shape.depths["stages.1"] for shape in shapes)
    widths = Counter(shape.widths["stages.1.1.conv2"] for shape in shapes)
    assert set(widths) == set(space.widths["stages.1.1.conv2"])
    # within five standard deviations of 2000/3 and 2000/8
    assert all(abs(n - 2000 / 3) < 105 for n in depths.values())
    assert all(abs(n - 2000 / 8) < 74 for n in widths.values())


FULL = {"0": 4, "1": 4}


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (Shape({"0": 4, "2": 4}), "no layer '2' that may change; known: 0, 1"),
        (Shape({"0": 4}), "the shape lacks the layer '1'"),
        (Shape({**FULL, "3.0": 4}), "no layer '3.0' that may change; known: 0, 1"),
        (Shape(FULL, {"stage": 1}), "no stage 'stage' that may change"),
        (Shape(FULL, {}, {"0": (0, 1, 2, 4)}), "channel 4 of '0' does not exist: it has 4"),
    ],
)
def test_a_shape_that_does_not_fit_is_refused(shape: Shape, message: str) -> None:
    space = Space.trace(
        nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)), (3, 2, 2)
    )
    with pytest.raises(ValueError, match=message):
        macs(space, shape)


def test_a_depth_beyond_the_stage_and_a_follower_are_refused() -> None:
    space = trace("resnet20")
    with pytest.raises(ValueError, match=r"the depth of 'stages.0' must be 1 to 3, not 4"):
        space.check(space.full.replace(depths={"stages.0": 4}))
    with pytest.raises(
        ValueError, match=r"'stages.1.0.shortcut.1' shares the width of 'stages.1.0.conv2'"
    ):
        space.check(space.full.replace(widths={"stages.1.0.shortcut.1": 4}))


def test_a_shape_of_another_network_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lacks the layer 'stages.0.3.conv1'"):
        trace("resnet32").check(trace("resnet20").full)


@pytest.mark.parametrize("name", [name for name in NETWORKS if name not in FAMILIES])
def test_every_layer_is_either_free_shared_fixed_or_the_output(name: str) -> None:
    make, input_shape = NETWORKS[name]
    network = make()
    space = Space.trace(network, input_shape)
    assert space.fixed == {}
    owners = {n for n, m in network.named_modules() if isinstance(m, nn.Conv2d) and m.groups == 1}
    assert owners - set(space.widths) - set(space.shares) == set()


def test_a_relu_that_a_block_calls_twice_does_not_hide_its_stage() -> None:
    space = Space.trace(ReusedReluResNet(), (3, 16, 16))
    assert space.depths == {"layer1": (1, 2, 3), "layer2": (1, 2)}


def test_a_block_that_is_called_twice_is_no_stage() -> None:
    block = ReusedReluBlock(8, 8, 1)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Sequential(block, block), nn.Flatten())
    assert Space.trace(net, (3, 8, 8)).depths == {}
