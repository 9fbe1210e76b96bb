"""The supernet against a literal twin: slices, one batch norm a candidate, pooling, sums."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from support.literal_twin import Literal
from support.networks import NETWORKS, randomise
from support.supernets import ODD_NETWORKS, draw_of
from transformable.models.resnet import cifar_resnet
from transformable.settings import Align, Residual
from transformable.supernet import candidate_norms, interpolation
from transformable.supernet.candidate_norms import CandidateNorms
from transformable.supernet.sampling import draw_gumbel
from transformable.supernet.supernet import SuperNet


def bottlenecks() -> nn.Module:
    """Two blocks a stage, with 1x1 convolutions that expand, two of them with a stride."""
    model = cifar_resnet(2, 10, 3, bottleneck=True)
    for stage, (c_in, c_out) in ((1, (64, 128)), (2, (128, 256))):
        layers = nn.Conv2d(c_in, c_out, 1, 2, bias=False), nn.BatchNorm2d(c_out)
        model.get_submodule(f"stages.{stage}.0").shortcut = nn.Sequential(*layers)
    return model


def supernet(
    select: int,
    align: Align,
    ratios: tuple[float, ...],
    seed: int = 0,
    make: Callable[[], nn.Module] | None = None,
) -> SuperNet:
    torch.manual_seed(seed)
    model = make() if make else tas.models.build("resnet20")
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


def compare_with_twin(net: SuperNet) -> Tensor:
    """Compares outputs and gradients; the result is the gradient of the logits of the widths."""
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
    return mine[0]


@pytest.mark.parametrize("ratios", [RATIOS, (0.5, 1.0, 1.4)])
@pytest.mark.parametrize("align", ["pool", "linear", "pad"])
@pytest.mark.parametrize("select", [1, 2, 3, 8])
def test_outputs_and_gradients_are_those_of_the_literal_twin(
    select: int, align: Align, ratios: tuple[float, ...]
) -> None:
    of_alpha = compare_with_twin(supernet(select, align, ratios))
    if select == 1:
        assert not of_alpha.any()
    else:
        assert of_alpha.abs().sum() > 1e-3


@pytest.mark.parametrize("dense_up_to", [16, 256])
@pytest.mark.parametrize("align", ["pool", "linear", "pad"])
@pytest.mark.parametrize("select", [1, 2, 8])
def test_bottlenecks_are_those_of_the_literal_twin(
    select: int, align: Align, dense_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expanding layers with many pixels and with few, with dense matrices and with sparse ones."""
    for module in (candidate_norms, interpolation):
        monkeypatch.setattr(module, "DENSE_UP_TO", dense_up_to)
    interpolation.interpolation_matrix.cache_clear()
    compare_with_twin(supernet(select, align, (0.5, 0.7, 1.0), make=bottlenecks))
    interpolation.interpolation_matrix.cache_clear()


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
    x = torch.randn(4, *input_shape)
    if x.ndim == 4:
        net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)
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


def test_weights_that_rounding_hides_are_zero() -> None:
    alpha = torch.tensor([[0.0, -9.0, -200.0], [0.0, 1.0, 2.0]], requires_grad=True)
    beta = torch.tensor([[0.0, -300.0]])
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        draw = draw_gumbel(alpha, beta, tau=0.5, select=3, generator=generator)
        for weights in (draw.weights, draw.depths):
            assert ((weights == 0) | (weights > 1e-7)).all()
            torch.testing.assert_close(weights.sum(1), torch.ones(len(weights)))
        assert draw.weights[0, 2] == 0
        assert draw.depths.tolist() == [[1.0, 0.0]]
        assert (draw.weights[1] > 0).sum() >= 2
    [gradient] = torch.autograd.grad(draw.weights.square().sum(), alpha)
    assert gradient.isfinite().all()
