"""The supernet against a literal twin: slices, one batch norm a candidate, pooling, sums."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import NETWORKS, randomise
from support.supernets import ODD_NETWORKS, draw_of
from transformable.settings import Align, Residual
from transformable.supernet.candidate_norms import CandidateNorms
from transformable.supernet.sampling import Draw, draw_gumbel
from transformable.supernet.supernet import SuperNet


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
        choice = net.rewritten.layers[name].choice
        row = list(net.space.widths).index(choice)
        drawn = zip(self.draw.candidates[row].tolist(), self.draw.weights[row], strict=True)
        used = [(j, w) for j, w in drawn if w > 0]
        widths = net.space.widths[choice]
        widest = max(widths[j] for j, _ in used)
        [group] = [g for g in net.groups if isinstance(g, CandidateNorms) and name in g.names]
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
        assert isinstance(group, CandidateNorms)
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
    draw = net.draw()
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


@pytest.mark.parametrize("align", ["pool", "pad"])
@pytest.mark.parametrize(
    "name", ["resnet20", "resnet164", "mobilenet_v2", *NETWORKS, *ODD_NETWORKS]
)
def test_one_shape_is_what_slim_makes_of_it(name: str, align: Align) -> None:
    """Where one candidate is drawn nothing has to be aligned: so this holds for every alignment.

    It also shows that channels which are not there stay at zero: a gate, a norm that stands alone
    or a bias that woke them would be seen in the outputs.
    """
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    known = {**NETWORKS, **ODD_NETWORKS}
    make, input_shape = known.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    model = randomise(make()).double().eval()
    space = tas.Space.trace(model, input_shape)
    net = SuperNet(model, space, align=align).double().eval()
    images = torch.randn(3, *input_shape, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    for shape in (space.full, *(space.sample(generator) for _ in range(3))):
        small = tas.slim(model, space, shape).eval()
        ours = net(images, draw_of(net, shape))
        torch.testing.assert_close(ours, small(images), rtol=1e-9, atol=1e-10)


def test_argmax_sampled_and_mixture_can_be_asked_for() -> None:
    torch.manual_seed(0)
    model = tas.models.build("resnet20").eval()
    space = tas.Space.trace(model, (3, 16, 16))
    net = SuperNet(model, space).eval()
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(net(x), net(x, net.most_probable_sizes()))
    small = tas.slim(model, space, net.argmax()).eval()
    torch.testing.assert_close(net(x), small(x), rtol=1e-3, atol=1e-4)
    assert not torch.allclose(net(x, net.draw()), net(x, net.draw()))
    assert torch.equal(net(x, net.softmax_mixture()), net(x, net.softmax_mixture()))


def test_draws_come_from_the_generator_alone() -> None:
    net = supernet(2, "pool", RATIOS)
    draws = []
    for seed in (5, 5, 6):
        torch.randn(seed)  # what others draw does not matter
        net.generator.manual_seed(seed)
        draws.append(net.draw())
    assert torch.equal(draws[0].weights, draws[1].weights)
    assert torch.equal(draws[0].depths, draws[1].depths)
    assert not torch.equal(draws[0].weights, draws[2].weights)


def test_candidates_are_drawn_by_their_probability() -> None:
    """The first of two without replacement from (.6, .3, .1) is each with that probability; so the
    chance to be among the two is known."""
    alpha, beta = torch.tensor([[0.6, 0.3, 0.1]]).log(), torch.zeros(1, 1)
    generator = torch.Generator().manual_seed(0)
    counts = torch.zeros(3)
    for _ in range(4000):
        # with a high temperature of the noise the candidates are drawn evenly, so it is 1 here
        draw = draw_gumbel(alpha, beta, tau=1.0, select=1, generator=generator)
        counts[draw.candidates[0, 0]] += 1
    share = counts / 4000
    # softmax of log p + Gumbel noise, on average, drawn from once more
    noise = -torch.empty(200_000, 3).exponential_(generator=generator).log()
    expected = (alpha + noise).softmax(1).mean(0)
    torch.testing.assert_close(share, expected, atol=0.03, rtol=0)


def test_discrepancy_and_entropy() -> None:
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 8, 8), ratios=(0.5, 1.0), search="width")
    net = SuperNet(model, space)
    with torch.no_grad():
        net.alpha.copy_(torch.tensor([0.8, 0.2]).log().expand_as(net.alpha))
    assert net.discrepancy() == pytest.approx(0.6)  # stages have no choice and are left out
    assert net.entropy() == pytest.approx(0.5004, abs=1e-4)


def test_norms_learn_the_statistics_of_the_batches() -> None:
    model = tas.models.build("resnet20").train()
    space = tas.Space.trace(model, (3, 16, 16))
    x = torch.randn(8, 3, 16, 16) + 1
    norms = []
    for align in ("pool", "pad"):
        net = SuperNet(model, space, align=align).train()
        net(x)
        norms.append(net.body.get_submodule("stem.0").norm)
    model(x)
    for norm in norms:
        assert isinstance(norm, nn.BatchNorm2d)
        reference = model.get_submodule("stem.1")
        torch.testing.assert_close(norm.running_mean, reference.running_mean)
        torch.testing.assert_close(norm.running_var, reference.running_var)
        assert norm.num_batches_tracked == 1


@pytest.mark.parametrize("align", ["pool", "pad"])
def test_channels_last_and_contiguous_memory_give_the_same(align: Align) -> None:
    """They take different ways through the fused operations."""
    results = []
    for memory in (torch.contiguous_format, torch.channels_last):
        net = supernet(2, align, RATIOS)
        net.to(memory_format=memory)  # type: ignore[call-overload]
        torch.manual_seed(1)
        x = torch.randn(4, 3, 16, 16, dtype=torch.float64).contiguous(memory_format=memory)
        loss = net(x).square().sum()
        results.append([loss, *torch.autograd.grad(loss, list(net.parameters()))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["mobilenet_v2", *NETWORKS, *ODD_NETWORKS])
@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
def test_every_choice_learns(name: str, residual: Residual) -> None:
    """In channels-last memory, as in a search, on images that are never one pixel small."""
    torch.manual_seed(3)  # one in which no gate of a few units is dead from the start
    make: Callable[[], nn.Module]
    known = {**NETWORKS, **ODD_NETWORKS}
    make, input_shape = known.get(name, (partial(tas.models.build, name), (3, 64, 64)))
    model = randomise(make())
    space = tas.Space.trace(model, input_shape, residual=residual)
    net = SuperNet(model, space, select=8).train()
    net.tau = 1.0
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(4, *input_shape).contiguous(memory_format=torch.channels_last)
    of_alpha, of_beta = torch.autograd.grad(
        net(x).square().sum(), [net.alpha, net.beta], materialize_grads=True
    )
    for gradient, sizes in ((of_alpha, space.widths), (of_beta, space.depths)):
        for row, candidates in zip(gradient, sizes.values(), strict=True):
            assert (len(candidates) > 1) == bool(row.any())
    assert net.expected_macs() > 0


def test_mixed_precision() -> None:
    net = supernet(2, "pool", RATIOS).float().train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(torch.randn(4, 3, 16, 16)).float().square().sum()
    of_alpha, of_beta = torch.autograd.grad(loss, [net.alpha, net.beta])
    assert of_alpha.any()
    assert of_beta.any()
