"""extract: the network of a shape computes what the supernet computes when it draws that shape."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from support.counted_costs import counted_macs
from support.networks import NETWORKS, randomise
from support.supernets import ODD_NETWORKS, draw_of
from transformable.settings import Align, Residual

RATIOS = (0.3, 0.5, 0.75, 1.0)
KNOWN = {
    "resnet20": (partial(tas.models.build, "resnet20"), (3, 16, 16)),
    "resnet164": (partial(tas.models.build, "resnet164"), (3, 8, 8)),
    "mobilenet_v2": (partial(tas.models.build, "mobilenet_v2"), (3, 32, 32)),
    **NETWORKS,
    **ODD_NETWORKS,
}


def trained(
    name: str,
    ratios: tuple[float, ...] = RATIOS,
    residual: Residual = "pad",
    align: Align = "pad",
) -> tuple[nn.Module, tas.SuperNet, Tensor]:
    """A network, its supernet after a few steps, and images. The scales, shifts and statistics
    differ from those that the network has, and from candidate to candidate."""
    torch.manual_seed(0)
    make, input_shape = KNOWN[name]
    model = randomise(make()).double()  # type: ignore[operator]
    space = tas.Space.trace(model, input_shape, ratios=ratios, residual=residual)
    net = tas.SuperNet(model, space, select=2, align=align).double().train()
    optimizer = torch.optim.SGD(net.weight_parameters(), lr=0.01)
    images = torch.randn(8, *input_shape, dtype=torch.float64)
    for _ in range(3):
        optimizer.zero_grad()
        net(images + torch.randn(())).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        for norms in net.groups:
            for p in norms.parameters():
                p.add_(torch.randn_like(p), alpha=0.3)
    return model, net.eval(), images


def shapes(space: tas.Space, count: int) -> list[tas.Shape]:
    generator = torch.Generator().manual_seed(1)
    return [space.smallest, space.largest, *(space.sample(generator) for _ in range(count))]


@pytest.mark.parametrize("name", KNOWN)
def test_it_computes_what_the_supernet_computes(name: str) -> None:
    model, net, images = trained(name)
    for shape in shapes(net.space, 3):
        small = net.extract(shape)
        torch.testing.assert_close(
            small(images), net(images, draw_of(net, shape)), rtol=1e-9, atol=1e-10
        )
        reference = tas.slim(model, net.space, shape).eval()
        assert repr(small) == repr(reference)
        assert list(small.state_dict()) == list(reference.state_dict())
        # not the weights of the model
        assert not torch.allclose(small(images), reference(images))


@pytest.mark.parametrize("name", ["resnet20", "squeeze-and-excite", "vgg", "padded resnet"])
@pytest.mark.parametrize("ratios", [(0.5, 1.0, 1.4), (0.25, 0.5)])
@pytest.mark.parametrize("residual", ["pad", "tied"])
def test_the_largest_candidates_need_not_be_the_model(
    name: str, ratios: tuple[float, ...], residual: Residual
) -> None:
    _, net, images = trained(name, ratios, residual)
    for shape in shapes(net.space, 2):
        small = net.extract(shape)
        torch.testing.assert_close(
            small(images), net(images, draw_of(net, shape)), rtol=1e-9, atol=1e-10
        )
        assert counted_macs(small.float(), net.space.input_shape) == tas.macs(net.space, shape)


@pytest.mark.parametrize("align", ["pool", "linear"])
def test_alignment_does_not_matter_for_one_shape(align: Align) -> None:
    _, net, images = trained("resnet20", align=align)
    [shape] = shapes(net.space, 1)[2:]
    expected = net(images, draw_of(net, shape))
    torch.testing.assert_close(net.extract(shape)(images), expected, rtol=1e-9, atol=1e-10)


def test_projected_shortcuts_start_as_slim_starts_them() -> None:
    model, net, _ = trained("resnet20", residual="project")
    [shape] = shapes(net.space, 1)[2:]
    small = net.extract(shape)
    assert repr(small) == repr(tas.slim(model, net.space, shape))
    width = shape.widths["stages.0.0.conv1"]
    weight = net.body.get_parameter("stages.0.0.conv1.layer.weight")
    ours = small.get_parameter("stages.0.0.conv1.weight")
    assert torch.equal(ours, weight[:width, : shape.widths["stem.0"]])


def test_the_supernet_stays_as_it_is() -> None:
    _, net, images = trained("resnet20")
    before, outputs = {n: t.clone() for n, t in net.state_dict().items()}, net(images)
    small = net.extract(net.space.full).train()
    for parameter in small.parameters():
        parameter.data.zero_()
    small(images)
    torch.testing.assert_close(net.state_dict(), before, rtol=0, atol=0)
    assert torch.equal(net(images), outputs)


class Extras(nn.Module):
    """A buffer and a parameter outside of layers, a relu in place, and a head that is not used."""

    offset: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(True)
        self.register_buffer("offset", torch.tensor([0.1]))
        self.factor = nn.Parameter(torch.tensor([2.0]))
        self.fc, self.unused = nn.Linear(8, 10), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(x))) * self.factor + self.offset
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def test_what_lies_outside_of_layers_is_that_of_the_supernet() -> None:
    model = Extras()
    space = tas.Space.trace(model, (3, 8, 8))
    net = tas.SuperNet(model, space, align="pad").double().eval()
    state = {n: t + 0.5 if t.is_floating_point() else t for n, t in net.state_dict().items()}
    net.load_state_dict(state)
    shape = tas.Shape({"conv": space.widths["conv"][2]})
    small, images = net.extract(shape), torch.randn(2, 3, 8, 8, dtype=torch.float64)
    torch.testing.assert_close(small(images), net(images, draw_of(net, shape)))
    assert small.get_buffer("offset").dtype == torch.float64
    assert small.get_buffer("offset").item() == pytest.approx(0.6)
    assert small.get_parameter("factor").item() == pytest.approx(2.5)
    assert torch.equal(small.get_parameter("unused.weight"), model.unused.weight)
    assert repr(small) == repr(tas.slim(model, space, shape))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages.1.0.conv2": 17}, "'stages.1.0.conv2' at width 17: its candidates are 9, 16, 24"),
        ({"stages.9": 3}, "no layer 'stages.9'"),
    ],
)
def test_other_widths_are_refused(change: dict[str, int], message: str) -> None:
    net = supernet_of_resnet20()
    with pytest.raises(ValueError, match=message):
        net.extract(net.space.full.replace(widths=change))


def test_picked_channels_are_refused() -> None:
    net = supernet_of_resnet20()
    shape = tas.Shape({**net.space.full.widths, "stem.0": 4}, net.space.full.depths)
    picked = tas.Shape(shape.widths, shape.depths, {"stem.0": (1, 2, 3, 4)})
    with pytest.raises(ValueError, match="the shape picks those of 'stem"):
        net.extract(picked)


def supernet_of_resnet20() -> tas.SuperNet:
    model = tas.models.build("resnet20")
    return tas.SuperNet(model, tas.Space.trace(model, (3, 8, 8), ratios=RATIOS))
