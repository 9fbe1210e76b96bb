"""Expanding pointwise layers as one product, against a convolution, a batch norm and a matrix."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformable.settings import Align
from transformable.supernet.channel_matrix import DENSE_UP_TO, ChannelMatrix, sparse_mix
from transformable.supernet.interpolation import interpolate, interpolation_matrix
from transformable.supernet.mixed_layer import MixedLayer
from transformable.supernet.pointwise_layer import is_expanding, merges, pointwise_norm_mix

KINDS = ["dense", "sparse"]


def make_mix(kind: str, channels: int) -> tuple[ChannelMatrix, list[Tensor]]:
    """A matrix with its leaves; in the sparse one some values share a place, and two columns are
    empty."""
    shift = torch.randn(channels, dtype=torch.float64, requires_grad=True)
    width = {"dense": channels, "sparse": 4}[kind]
    values = torch.randn(channels, width, dtype=torch.float64, requires_grad=True)
    columns = torch.randint(channels - 2, (channels, 4)) if kind == "sparse" else None
    return ChannelMatrix(values, shift, columns), [values, shift]


def literal(x: Tensor, layer: nn.Conv2d, norm: nn.BatchNorm2d, mix: ChannelMatrix) -> Tensor:
    return F.conv2d(norm(layer(x)), mix.matrix()[:, :, None, None], mix.shift)


def layer_and_norms(stride: int) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.BatchNorm2d]:
    layer = nn.Conv2d(3, 10, 1, stride, bias=False, dtype=torch.float64)
    norm = nn.BatchNorm2d(10, affine=False, momentum=0.3, dtype=torch.float64)
    return layer, norm, copy.deepcopy(norm)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_one_product_is_convolution_norm_and_matrix(
    kind: str, stride: int, memory: torch.memory_format, relu: bool
) -> None:
    torch.manual_seed(0)
    layer, norm, reference = layer_and_norms(stride)
    mix, leaves = make_mix(kind, 10)
    x = (torch.randn(4, 3, 5, 7, dtype=torch.float64) * 2 + 3).contiguous(memory_format=memory)
    parameters = [x.requires_grad_(), layer.weight, *leaves]
    ours = pointwise_norm_mix(x, layer, norm, mix, relu=relu)
    other = literal(x, layer, reference, mix)
    other = F.relu(other) if relu else other
    torch.testing.assert_close(ours, other, rtol=1e-9, atol=1e-9)
    upstream = torch.randn_like(other)
    mine = torch.autograd.grad(ours, parameters, upstream)
    theirs = torch.autograd.grad(other, parameters, upstream)
    for one, two in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stride", [1, 2])
def test_running_statistics_are_those_of_a_batch_norm(stride: int) -> None:
    torch.manual_seed(0)
    layer, norm, reference = layer_and_norms(stride)
    mix, _ = make_mix("dense", 10)
    for _ in range(3):
        x = torch.randn(2, 3, 4, 4, dtype=torch.float64) - 1
        pointwise_norm_mix(x, layer, norm, mix)
        reference(layer(x))
    torch.testing.assert_close(norm.running_mean, reference.running_mean, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(norm.running_var, reference.running_var, rtol=1e-9, atol=1e-12)
    assert norm.num_batches_tracked == reference.num_batches_tracked == 3


@pytest.mark.parametrize("mean", [0.0, 3.0, 30.0, 300.0])
def test_single_precision(mean: float) -> None:
    """As exact as the separate operations, also where the mean is far above the deviation."""
    torch.manual_seed(0)
    layer, norm, reference = layer_and_norms(1)
    mix, _ = make_mix("dense", 10)
    x = torch.randn(16, 3, 16, 16, dtype=torch.float64) + mean
    exact = literal(x, layer, reference, mix)
    assert mix.shift is not None
    single = ChannelMatrix(mix.values.float(), mix.shift.float())
    x, layer, norm, reference = x.float(), layer.float(), norm.float(), reference.float()
    ours = pointwise_norm_mix(x, layer, norm, single)
    other = literal(x, layer, reference, single)
    error, usual = ((y - exact).abs().max() for y in (ours, other))
    assert error < 5 * usual


def test_an_input_that_never_changes_has_no_variance() -> None:
    """Rounding must not make a variance negative."""
    layer, norm = nn.Conv2d(4, 8, 1, bias=False), nn.BatchNorm2d(8, affine=False)
    x = torch.full((4, 4, 5, 5), 1.7)
    out = pointwise_norm_mix(x, layer, norm, ChannelMatrix(torch.eye(8)))
    assert out.isfinite().all()
    assert out.abs().max() < 0.1


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (nn.Conv2d(4, 8, 1, bias=False), True),
        (nn.Conv2d(4, 8, 1, stride=2, bias=False), True),
        (nn.Conv2d(8, 8, 1, bias=False), False),
        (nn.Conv2d(4, 8, 1), False),
        (nn.Conv2d(4, 8, 3, bias=False), False),
        (nn.Conv2d(4, 8, 1, padding=1, bias=False), False),
        (nn.Conv2d(4, 8, 1, groups=2, bias=False), False),
        (nn.Linear(4, 8, bias=False), False),
    ],
)
def test_which_layers_are_expanding(layer: nn.Module, expected: bool) -> None:
    assert is_expanding(layer, nn.BatchNorm2d(8)) == expected
    assert not is_expanding(layer, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["few pixels", "eval", "merged"])
def test_every_way_through_a_layer_is_the_same(way: str, kind: str) -> None:
    torch.manual_seed(0)
    layer, norm, reference = layer_and_norms(1)
    mix, leaves = make_mix(kind, 10)
    mixed = MixedLayer(layer, norm).train(way != "eval")
    mixed.relu = True
    reference.train(way != "eval")
    size = {"few pixels": 1, "eval": 4, "merged": 4}[way]
    x = torch.randn(2, 3, size, size, dtype=torch.float64, requires_grad=True)
    assert merges(x, layer, norm, mix) == (way == "merged")
    expected, ours = F.relu(literal(x, layer, reference, mix)), mixed(x, mix)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)
    upstream, parameters = torch.randn_like(expected), [x, layer.weight, *leaves]
    mine, other = (torch.autograd.grad(y, parameters, upstream) for y in (ours, expected))
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_with_few_pixels_only_a_dense_matrix_is_merged() -> None:
    layer, norm, _ = layer_and_norms(1)
    x = torch.randn(3, 3, 2, 2, dtype=torch.float64)
    assert [merges(x, layer, norm, make_mix(kind, 10)[0]) for kind in KINDS] == [True, False]


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("shifted", [False, True])
def test_a_sparse_mix_and_its_gradients(shifted: bool, memory: torch.memory_format) -> None:
    torch.manual_seed(0)
    mix, [values, shift] = make_mix("sparse", 10)
    x = torch.randn(3, 10, 4, 5, dtype=torch.float64).contiguous(memory_format=memory)
    leaves = [x.requires_grad_(), values, shift] if shifted else [x.requires_grad_(), values]
    mix = mix if shifted else mix._replace(shift=None)
    ours = sparse_mix(x, mix)
    other = F.conv2d(x, mix.matrix()[:, :, None, None], mix.shift)
    torch.testing.assert_close(ours, other, rtol=1e-12, atol=1e-12)
    upstream = torch.randn_like(other)
    mine, right = (torch.autograd.grad(y, leaves, upstream) for y in (ours, other))
    for one, two in zip(mine, right, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [2, 8])
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_stay_in_channels_last_memory(stride: int, size: int, kind: str) -> None:
    """With few pixels and with many. One in another layout makes every later step slow."""
    torch.manual_seed(0)
    layer, norm, _ = layer_and_norms(stride)
    mix, _ = make_mix(kind, 10)
    x = torch.randn(2, 3, size, size, dtype=torch.float64)
    x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
    y = MixedLayer(layer, norm)(x, mix)
    assert y.is_contiguous(memory_format=torch.channels_last)
    [grad] = torch.autograd.grad(y.square().sum(), x)
    assert grad.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("align", ["pool", "linear"])
def test_large_alignments_are_sparse_and_small_ones_dense(align: Align) -> None:
    torch.manual_seed(0)
    for size in (8, DENSE_UP_TO + 8):
        narrow, wide = size // 2, size - 3
        mix = interpolation_matrix(narrow, wide, size, align, torch.float64, torch.device("cpu"))
        assert (mix.columns is None) == (size == 8)
        sources, weights = interpolate(narrow, wide, align)
        x = torch.randn(2, size, 3, 3, dtype=torch.float64)
        expected = torch.zeros_like(x)
        expected[:, :wide] = (x[:, sources] * weights[:, :, None, None]).sum(2)
        ours = F.conv2d(x, mix.matrix()[:, :, None, None])
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
        if mix.columns is not None:
            torch.testing.assert_close(sparse_mix(x, mix), expected, rtol=1e-12, atol=1e-12)


def test_mixed_precision_of_wide_layers() -> None:
    """Sparse matrices, which autocast does not know."""
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 300, 1, bias=False)
    mixed = MixedLayer(layer, nn.BatchNorm2d(300))
    mix = ChannelMatrix(torch.randn(300, 4), torch.randn(300), torch.randint(300, (300, 4)))
    x = torch.randn(4, 4, 6, 6)
    exact = mixed(x, mix)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours = mixed(x, mix)
    assert (ours.float() - exact).abs().mean() < 0.02 * exact.abs().mean()
