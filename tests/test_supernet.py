"""The supernet against a literal twin: slices, one batch norm a candidate, pooling, sums."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from transformable.config import Align
from transformable.draw import Draw
from transformable.supernet import Group, SuperNet


def cwi(x: Tensor, channels: int, align: str) -> Tensor:
    """Channel-wise interpolation by torch's own operations."""
    n, c, h, w = x.shape
    if align == "pool":
        return F.adaptive_avg_pool3d(x.unsqueeze(1), (channels, h, w)).squeeze(1)
    if align == "pad":
        return F.pad(x, (0, 0, 0, 0, 0, channels - c))
    rows = x.permute(0, 2, 3, 1).reshape(n, h * w, c)
    return F.interpolate(rows, channels, mode="linear").view(n, h, w, channels).permute(0, 3, 1, 2)


class Literal:
    """A CIFAR ResNet of basic blocks, computed as the paper writes it."""

    def __init__(self, net: SuperNet, draw: Draw) -> None:
        self.net, self.draw = net, draw

    def layer(self, name: str, x: Tensor, stride: int = 1) -> Tensor:
        net = self.net
        weight = net.body.get_submodule(f"{name}.layer").weight
        assert isinstance(weight, Tensor)
        y = F.conv2d(x, weight[:, : x.shape[1]], None, stride, weight.shape[-1] // 2)
        choice = net.twin.mixed[name].choice
        row = list(net.space.widths).index(choice)
        drawn = zip(self.draw.candidates[row].tolist(), self.draw.weights[row], strict=True)
        used = [(j, w) for j, w in drawn if w > 0]
        widths = net.space.widths[choice]
        widest = max(widths[j] for j, _ in used)
        [group] = [g for g in net.groups if isinstance(g, Group) and name in g.names]
        total = torch.zeros((), dtype=x.dtype)
        for j, w in used:
            part = y[:, : widths[j]]
            if group.scale is not None and group.shift is not None:
                i = group.names.index(name)
                scale, shift = group.scale[i, j, : widths[j]], group.shift[i, j, : widths[j]]
                part = F.batch_norm(part, None, None, scale, shift, training=True)
            total = total + w * cwi(part, widest, net.align)
        return total

    def __call__(self, x: Tensor) -> Tensor:
        net = self.net
        x = F.relu(self.layer("stem.0", x))
        for s, stage in enumerate(net.space.depths):
            outputs = []
            for b in range(net.space.full.depths[stage]):
                name = f"{stage}.{b}"
                stride = 2 if s > 0 and b == 0 else 1
                out = F.relu(self.layer(f"{name}.conv1", x, stride))
                out = self.layer(f"{name}.conv2", out)
                if stride == 2:
                    x = self.layer(f"{name}.shortcut.1", F.avg_pool2d(x, 2))
                x = F.relu(add(out, x))
                outputs.append(x)
            widest = max(o.shape[1] for o in outputs)
            depths = net.space.depths[stage]
            x = torch.zeros((), dtype=x.dtype)
            for i, depth in enumerate(depths):
                x = x + self.draw.depths[s, i] * cwi(outputs[depth - 1], widest, net.align)
        classifier = net.body.get_submodule("classifier")
        assert isinstance(classifier, nn.Linear)
        return F.linear(x.mean((2, 3)), classifier.weight[:, : x.shape[1]], classifier.bias)


def add(a: Tensor, b: Tensor) -> Tensor:
    """The first channels are added, the rest of the wider one passes."""
    c = min(a.shape[1], b.shape[1])
    wide = a if a.shape[1] > c else b
    return torch.cat([a[:, :c] + b[:, :c], wide[:, c:]], 1)


def supernet(select: int, align: Align, ratios: tuple[float, ...], seed: int = 0) -> SuperNet:
    torch.manual_seed(seed)
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 8, 8), ratios=ratios)
    net = SuperNet(model, space, select=select, align=align).double()
    net.tau = 1.0
    for group in net.groups:
        assert isinstance(group, Group)
        if group.scale is not None and group.shift is not None:
            nn.init.uniform_(group.scale, 0.5, 1.5)
            nn.init.normal_(group.shift)
    nn.init.normal_(net.alpha)
    nn.init.normal_(net.beta)
    return net


RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@pytest.mark.parametrize("ratios", [RATIOS, (0.5, 1.0, 1.4)])
@pytest.mark.parametrize("align", ["pool", "linear", "pad"])
@pytest.mark.parametrize("select", [1, 2, 3, 8])
def test_outputs_and_gradients_are_those_of_the_literal_twin(
    select: int, align: Align, ratios: tuple[float, ...]
) -> None:
    net = supernet(select, align, ratios)
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    draw = net.drawn()
    ours, literal = net(x, draw), Literal(net, draw)(x)
    torch.testing.assert_close(ours, literal, rtol=1e-10, atol=1e-10)
    parameters = [*net.parameters(), x]
    upstream = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, parameters, upstream, retain_graph=True)
    other = torch.autograd.grad(literal, parameters, upstream, allow_unused=True)
    for one, two in zip(mine, other, strict=True):
        expected = torch.zeros_like(one) if two is None else two
        torch.testing.assert_close(one, expected, rtol=1e-9, atol=1e-10)
    if select == 1:
        assert not mine[0].any()
    else:
        assert mine[0].abs().sum() > 1e-3
