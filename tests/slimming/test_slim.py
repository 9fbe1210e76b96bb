import copy
import zlib

import pytest
import torch
from torch import Tensor, fx, nn

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from support.families import Scaled, ScaledStdConv
from support.networks import NETWORKS, PaddedResNet, randomise
from transformable.tracing.layouts import kept_channels

SIZES = {"resnet20": 32, "resnet164": 16, "resnet50": 64, "mobilenet_v2": 32}
NAMES = [*SIZES, *NETWORKS]


def network_of(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(zlib.crc32(name.encode()))
    if name in NETWORKS:
        make, input_shape = NETWORKS[name]
        return randomise(make()).eval(), input_shape
    return randomise(tas.models.build(name)).eval(), (3, SIZES[name], SIZES[name])


def masked(model: nn.Module, space: tas.Space, shape: tas.Shape) -> nn.Module:
    """The network at full width, with all that the shape takes away set to zero."""
    twin = copy.deepcopy(model)
    masks = space.masks(shape)
    for layer in space.layers:
        if layer.kind == "constant":
            continue
        module = twin.get_submodule(layer.name)
        if isinstance(module, nn.PReLU):
            continue  # it maps zero to zero
        outs, ins = (kept_channels(space.layouts, masks, i) for i in (layer.outputs, layer.inputs))
        if isinstance(module, Scaled):
            twin.set_submodule(layer.name, nn.Sequential(module, Kept(outs)))
            continue
        if isinstance(module, ScaledStdConv):
            # it is standardised over the inputs that are there
            module = plain_convolution(module, ins)
            twin.set_submodule(layer.name, module)
        with torch.no_grad():
            weight, bias = module.weight, module.bias
            assert isinstance(weight, nn.Parameter)
            if layer.kind == "transposed conv":
                weight = weight.transpose(0, 1)
            rows = torch.ones(len(weight), dtype=torch.bool)
            rows[outs] = False
            weight[rows] = 0
            if isinstance(bias, nn.Parameter):
                bias[rows] = 0
            if layer.kind in ("conv", "transposed conv", "linear"):
                columns = torch.ones(weight.shape[1], dtype=torch.bool)
                columns[ins] = False
                weight[:, columns] = 0
    for stage, depth in shape.depths.items():
        for block in space.stages[stage].blocks[depth:]:
            twin.set_submodule(block, nn.Identity())
    return twin


class Kept(nn.Module):
    """Only these channels."""

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        self.channels = channels

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.zeros(x.shape[1])
        mask[self.channels] = 1
        return x * mask.view(-1, 1, 1)


def plain_convolution(module: ScaledStdConv, ins: list[int]) -> nn.Conv2d:
    kernel = module.kernel_size[0]
    conv = nn.Conv2d(module.in_channels, module.out_channels, kernel, padding="same")
    with torch.no_grad():
        conv.weight[:, ins] = module.filters(module.weight[:, ins])
        assert module.bias is not None
        assert conv.bias is not None
        conv.bias.copy_(module.bias)
    return conv


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("name", NAMES)
def test_random_shapes_cost_what_was_said_and_compute_what_was_kept(
    name: str, residual: str
) -> None:
    model, input_shape = network_of(name)
    space = tas.Space.trace(model, input_shape, residual=residual)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, *input_shape, generator=generator)
    assert torch.equal(tas.slim(model, space, space.full)(x), model(x))
    for _ in range(7):
        shape = space.sample(generator)
        small = tas.slim(model, space, shape)
        assert tas.macs(space, shape) == counted_macs(small, input_shape)
        assert tas.params(space, shape) == counted_params(small)
        if residual != "project":
            # a projection, unlike a padded add, takes channels away from the stream
            assert set(small.state_dict()) <= set(model.state_dict())
            torch.testing.assert_close(
                small(x), masked(model, space, shape)(x), rtol=1e-4, atol=1e-5
            )
        small.train()(x).square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in small.parameters())


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("name", NAMES)
def test_a_slimmed_network_can_be_slimmed_again(name: str, residual: str) -> None:
    model, input_shape = network_of(name)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, *input_shape, generator=generator)
    for _ in range(3):
        space = tas.Space.trace(model, input_shape, residual=residual)  # type: ignore[arg-type]
        assert tas.macs(space, space.full) == counted_macs(model, input_shape)
        assert torch.equal(tas.slim(model, space, space.full)(x), model(x))
        shape = space.sample(generator)
        small = tas.slim(model, space, shape).eval()
        assert tas.macs(space, shape) == counted_macs(small, input_shape)
        if residual != "project" and not isinstance(model, fx.GraphModule):
            torch.testing.assert_close(
                small(x), masked(model, space, shape)(x), rtol=1e-4, atol=1e-5
            )
        model = small


def chain() -> tuple[nn.Sequential, tas.Space]:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(2, 4, 1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 3, 3),
        nn.Conv2d(3, 2, 1),
    ]
    network = nn.Sequential(*layers)
    randomise(network)
    return network.eval(), tas.Space.trace(network, (2, 5, 5))


def test_leading_channels_are_copied() -> None:
    network, space = chain()
    small = tas.slim(network, space, tas.Shape({"0": 2, "3": 1}))
    state, full = small.state_dict(), network.state_dict()
    assert torch.equal(state["0.weight"], full["0.weight"][:2])
    assert torch.equal(state["0.bias"], full["0.bias"][:2])
    for name in ("weight", "bias", "running_mean", "running_var"):
        assert torch.equal(state[f"1.{name}"], full[f"1.{name}"][:2])
    assert torch.equal(state["1.num_batches_tracked"], full["1.num_batches_tracked"])
    assert torch.equal(state["3.weight"], full["3.weight"][:1, :2])
    assert torch.equal(state["4.weight"], full["4.weight"][:, :1])
    assert small[1].num_features == 2  # type: ignore[index]


def test_picked_channels_are_copied() -> None:
    network, space = chain()
    shape = tas.Shape({"0": 2, "3": 2}, channels={"0": (1, 3), "3": (0, 2)})
    small, full = tas.slim(network, space, shape).state_dict(), network.state_dict()
    assert torch.equal(small["0.weight"], full["0.weight"][[1, 3]])
    assert torch.equal(small["1.running_var"], full["1.running_var"][[1, 3]])
    assert torch.equal(small["3.weight"], full["3.weight"][[0, 2]][:, [1, 3]])
    assert torch.equal(small["4.weight"], full["4.weight"][:, [0, 2]])


@pytest.mark.parametrize("name", NAMES)
def test_picked_channels_meet_their_own_kind_in_adds(name: str) -> None:
    model, input_shape = network_of(name)
    space = tas.Space.trace(model, input_shape)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, *input_shape, generator=generator)
    shape = space.sample(generator)
    channels = {}
    for layer, width in shape.widths.items():
        unit = space.units.get(layer, 1)
        blocks = torch.randperm(space.full.widths[layer] // unit, generator=generator)
        kept = [b * unit + i for b in blocks[: width // unit].tolist() for i in range(unit)]
        channels[layer] = tuple(sorted(kept))
    picked = tas.Shape(shape.widths, shape.depths, channels)
    small = tas.slim(model, space, picked).eval()
    torch.testing.assert_close(small(x), masked(model, space, picked)(x), rtol=1e-4, atol=1e-5)
    assert tas.macs(space, picked) == counted_macs(small, input_shape)


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("name", ["resnet20", "mobilenet_v2", *NETWORKS])
def test_a_network_can_grow(name: str, residual: str) -> None:
    model, input_shape = network_of(name)
    ratios = (0.5, 1.0, 1.3)
    space = tas.Space.trace(model, input_shape, residual=residual, ratios=ratios)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(4)
    widest = tas.Shape({n: c[-1] for n, c in space.widths.items()}, space.full.depths)
    for shape in (widest, space.sample(generator), space.sample(generator)):
        small = tas.slim(model, space, shape)
        assert tas.macs(space, shape) == counted_macs(small, input_shape)
        assert tas.params(space, shape) == counted_params(small)
        small.train()(torch.randn(2, *input_shape, generator=generator)).sum().backward()
    grown, full = tas.slim(model, space, widest).state_dict(), model.state_dict()
    name = next(n for n in space.widths if f"{n}.weight" in full and n not in space.units)
    old = full[f"{name}.weight"]
    assert torch.equal(grown[f"{name}.weight"][: len(old), : old.shape[1]], old)
    assert len(grown[f"{name}.weight"]) == len(old) * 13 // 10
    assert grown[f"{name}.weight"][len(old) :].std() > 0


def test_new_channels_are_as_the_seed_says() -> None:
    network, space = chain()
    wide = tas.Shape({"0": 6, "3": 5})
    torch.manual_seed(1)
    one = tas.slim(network, space, wide).state_dict()
    torch.manual_seed(1)
    two = tas.slim(network, space, wide).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert torch.equal(one["3.weight"][:3, :4], network.state_dict()["3.weight"])
    assert torch.equal(one["1.running_mean"][4:], torch.zeros(2))
    assert torch.equal(one["1.running_var"][4:], torch.ones(2))
    assert torch.equal(one["1.weight"][4:], torch.ones(2))


def test_copying_needs_no_random_numbers() -> None:
    network, space = chain()
    torch.manual_seed(0)
    tas.slim(network, space, tas.Shape({"0": 2, "3": 1}))
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


def test_fresh_weights_are_new_and_as_the_paper_starts() -> None:
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 32, 32))
    shape = space.sample(torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    small = tas.slim(randomise(model), space, shape, weights="fresh")
    torch.manual_seed(0)
    again = tas.slim(model, space, shape, weights="fresh")
    for one, two in zip(small.state_dict().values(), again.state_dict().values(), strict=True):
        assert torch.equal(one, two)
    norm = small.get_submodule("stem.1")
    assert isinstance(norm, nn.BatchNorm2d)
    assert torch.equal(norm.weight, torch.ones(norm.num_features))
    conv = small.get_submodule("stages.2.0.conv2")
    assert isinstance(conv, nn.Conv2d)
    assert conv.weight.std().item() == pytest.approx((2 / (conv.out_channels * 9)) ** 0.5, rel=0.1)


def test_our_networks_keep_their_class_and_a_plain_add_makes_a_graph() -> None:
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 32, 32))
    shape = space.full.replace(widths={"stages.1.1.conv2": 9}, depths={"stages.2": 2})
    small = tas.slim(model, space, shape)
    assert type(small) is type(model)
    assert "stages.2.2.conv1.weight" not in small.state_dict()
    padded = PaddedResNet()
    space = tas.Space.trace(padded, (3, 16, 16))
    graph = tas.slim(padded, space, space.full.replace(widths={"layer2.1.conv2": 9}))
    assert isinstance(graph, fx.GraphModule)
    inner = tas.slim(padded, space, space.full.replace(widths={"layer2.1.conv1": 9}))
    assert type(inner) is PaddedResNet


def test_dropout_written_as_a_function_goes_on_in_training_only() -> None:
    network = PaddedResNet(drop=0.5)
    space = tas.Space.trace(network, (3, 16, 16))
    small = tas.slim(network, space, space.full.replace(widths={"layer2.1.conv2": 9}))
    assert isinstance(small, fx.GraphModule)
    x = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(small.eval()(x), small(x))
    torch.manual_seed(0)
    assert not torch.equal(small.train()(x), small(x))


@pytest.mark.parametrize("name", ["resnet20", "padded resnet"])
def test_a_projection_begins_as_the_channels_that_both_sides_have(name: str) -> None:
    model, input_shape = network_of(name)
    space = tas.Space.trace(model, input_shape, residual="project")
    layer = "stages.0.1.conv2" if name == "resnet20" else "layer1.1.conv2"
    small = tas.slim(model, space, space.full.replace(widths={layer: 9}))
    [weight] = [t for n, t in small.state_dict().items() if t.shape == (9, 16, 1, 1)]
    assert torch.equal(weight.flatten(1), torch.eye(9, 16))
    fresh = tas.slim(model, space, space.full.replace(widths={layer: 9}), weights="fresh")
    [weight] = [t for n, t in fresh.state_dict().items() if t.shape == (9, 16, 1, 1)]
    assert not torch.equal(weight.flatten(1), torch.eye(9, 16))


def test_weights_go_from_one_slim_network_to_another_by_name() -> None:
    model, input_shape = network_of("padded resnet")
    space = tas.Space.trace(model, input_shape)
    shape = space.sample(torch.Generator().manual_seed(5))
    small = tas.slim(model, space, shape).eval()
    other = tas.slim(PaddedResNet(), space, shape, weights="fresh").eval()
    other.load_state_dict(small.state_dict())
    x = torch.randn(2, *input_shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(small(x), other(x))


def test_the_network_that_was_given_stays_as_it_is() -> None:
    model, input_shape = network_of("resnet20")
    before = copy.deepcopy(model.state_dict())
    space = tas.Space.trace(model, input_shape)
    small = tas.slim(model, space, space.sample(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        for parameter in small.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_another_network_and_other_weights_are_refused() -> None:
    network, space = chain()
    with pytest.raises(ValueError, match=r"not the one that was traced: '0.weight' is absent"):
        tas.slim(tas.models.build("resnet20"), space, space.full)
    other = nn.Sequential(nn.Conv2d(2, 5, 1), *list(network)[1:])
    with pytest.raises(ValueError, match=r"traced: '0.weight' is 5x2x1x1, not 4x2x1x1"):
        tas.slim(other, space, space.full)
    with pytest.raises(ValueError, match='weights must be "copy" or "fresh", not \'old\''):
        tas.slim(network, space, space.full, weights="old")  # type: ignore[arg-type]
