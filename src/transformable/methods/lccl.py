"""More is Less: A More Complicated Network with Less Inference Complexity.
Dong, Huang, Yang, Yan. CVPR 2017.

Each convolution gets a low-cost convolution beside it. The output of that, after a batch norm and a
relu, is multiplied with the output of the convolution, which need not be computed where it is zero.
All channels and blocks are kept: the network saves work at the positions of an image that do not
matter, so its cost has to be measured on images.

Differences from the paper: of its two low-cost layers this is the kernel shared by all output
channels, a convolution to one channel, which skips whole positions, those of 1x1 convolutions too.
In the paper, training alone decides how much is skipped. Here a threshold is subtracted before the
relu, set after each epoch so that every gate passes the same share of the positions, the share with
which the budget holds; the norm has no affine parameters, so that this share stays while the
weights learn. The gates are added to a trained network, start with the mean absolute filter (little
input, little computed), and are at most 1, without which the products of many layers grew without
end where no norm follows.

Torch has no convolution that skips positions. This layer computes all of them and multiplies, so
the network does not become faster.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import BandError, Budget
from ..costing.cost import layer_costs, macs
from ..data import Split
from ..layers import in_mode
from ..tracing.space import Space
from ..training.calibration import recalibrate, sample_images
from ..training.devices import make_fabric
from .interface import Context, MethodResult

__all__ = ["lccl"]

LEAST = 4
"""Convolutions of fewer output channels get no gate, which costs as much as one of them."""
CHEAP = 0.2
"""Nor do convolutions that cost less than this share of the mean, such as the projections of
shortcuts: they save little, and a closed gate there would lose the whole stream."""
IMAGES, SHARE = 1000, 0.05
"""Number of training images that the thresholds are set by, and their largest share of all: their
forward passes after each epoch count as passes."""
BATCH = 250
PIXELS, FEWEST = 1000 * 32 * 32, 64
"""A threshold is set by images of this many pixels together, and by at least this many images, as
far as there are."""
EPSILON = 1e-4  # distance of a threshold from the response that it separates
TRIES = 20  # shares that are tried to meet the budget


class GatedConv(nn.Module):
    """A convolution times a gate that is open where a low-cost convolution is above a threshold."""

    threshold: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        like: Any = {"device": conv.weight.device, "dtype": conv.weight.dtype}
        self.conv = conv
        # random initial weights would be overwritten, and change the caller's random numbers
        self.low: nn.Conv2d = nn.utils.skip_init(  # type: ignore[no-untyped-call]
            nn.Conv2d,
            conv.in_channels,
            1,
            conv.kernel_size,
            stride=conv.stride,
            padding=conv.padding,
            dilation=conv.dilation,
            bias=False,
            padding_mode=conv.padding_mode,
            **like,
        )
        self.low.weight.data.copy_(conv.weight.detach().abs().mean(0, keepdim=True))
        self.norm = nn.BatchNorm2d(1, affine=False, **like)
        self.register_buffer("threshold", torch.zeros((), **like))
        self.train(conv.training)

    def gate(self, x: Tensor) -> Tensor:
        """One channel from 0 to 1, zero where the convolution can be skipped."""
        return F.hardtanh(self.norm(self.low(x)) - self.threshold, 0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.gate(x)  # type: ignore[no-any-return]


def lccl(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    if budget.metric != "macs":
        raise ValueError("lccl saves neither parameters nor time on a processor; use --metric macs")
    network = add_gates(model, space)
    smallest, largest = cost_range(network, space)
    share = (budget.value - smallest) / (largest - smallest)
    if not 0 < share < 1:
        raise ValueError(
            f"a budget of {budget.value:,.0f} MACs is not possible with lccl: this network can "
            f"have {smallest:,} to {largest:,}"
        )
    count = max(FEWEST, min(IMAGES, int(SHARE * len(context.dataset.train))))
    calibration = sample_images(context.dataset.train, count, context.session.seed)
    held_out, fabric = context.dataset.validation, context.session.fabric
    reset_thresholds = partial(set_thresholds, share=share, split=calibration, fabric=fabric)

    def restore_budget(network: nn.Module, budget: Budget) -> int:
        # by the held-out images themselves if they are unlike the training images
        for split in (calibration, held_out):
            meet_budget(network, space, budget, split, fabric)
            cost = measured_cost(network, space, held_out, fabric)
            if budget.holds(cost):
                return cost
        raise BandError(
            f"lccl finds no threshold with {budget.band}, only one with {cost:,}; "
            "use a larger tolerance"
        )

    with _seen_images(network) as each_epoch:
        reset_thresholds(network)
    context.train(network, after_epoch=reset_thresholds)
    with _seen_images(network) as at_the_end:
        cost = restore_budget(network, budget)
    epochs = context.searching.epochs
    # the thresholds are set again in the training of the small network
    looked = (1 + epochs + context.epochs_after) * sum(each_epoch) + 2 * sum(at_the_end)
    notes = {
        "measured": True,
        "share": (cost - smallest) / (largest - smallest),
        "gates": len(_gates(network)),
        "time": "all positions are computed and then multiplied by the gates, so it is not faster",
    }
    return MethodResult(
        shape=space.full,
        model=network.train(model.training),
        cost=cost,
        notes=notes,
        passes=epochs + context.forward_passes(looked),
        after_epoch=reset_thresholds,
        restore_budget=restore_budget,
    )


def add_gates(model: nn.Module, space: Space) -> nn.Module:
    """A copy of the network with a gate for each convolution but the first and the cheap ones."""
    network = copy.deepcopy(model)
    costs = [row for row in layer_costs(space, space.full) if row.kind == "conv"]
    cheap = CHEAP * sum(row.macs for row in costs) / max(1, len(costs))
    for row in costs[1:]:
        conv = network.get_submodule(row.name)
        if isinstance(conv, nn.Conv2d) and row.outputs >= LEAST and row.macs >= cheap:
            network.set_submodule(row.name, GatedConv(conv))
    if not _gates(network):
        raise ValueError(
            f"lccl needs convolutions of {LEAST} channels or more after the first; there are none"
        )
    return network


def _gates(network: nn.Module) -> dict[str, GatedConv]:
    return {name: part for name, part in network.named_modules() if isinstance(part, GatedConv)}


def cost_range(network: nn.Module, space: Space) -> tuple[int, int]:
    """The MACs of an image with all gates closed, and with all open."""
    pixels = {layer.name: layer.pixels for layer in space.layers}
    gates = _gates(network).items()
    low = sum(gate.low.weight.numel() * pixels[name] for name, gate in gates)
    skipped = sum(gate.conv.weight.numel() * pixels[name] for name, gate in gates)
    largest = macs(space, space.full) + low
    return largest - skipped, largest


def measured_cost(
    network: nn.Module, space: Space, split: Split, fabric: Fabric | None = None
) -> int:
    """The mean MACs that have to be computed for these images, low-cost layers included; `space` is
    that of the network without gates."""
    fabric = fabric or make_fabric()
    computed = 0

    def count(gate: GatedConv, response: Tensor) -> None:
        nonlocal computed
        computed += int((response > gate.threshold).sum()) * gate.conv.weight.numel()

    network.to(fabric.device)
    evaluating, observed = in_mode(network, training=False), _observed(network, count)
    with torch.no_grad(), fabric.autocast(), evaluating, observed:
        for x in _batches(split):
            network(fabric.to_device(x))
    return round(cost_range(network, space)[0] + computed / len(split))


def set_thresholds(
    network: nn.Module, share: float, split: Split, fabric: Fabric | None = None
) -> None:
    """Set the thresholds so that each gate passes this share of the positions, and recalibrate the
    batch norms, whose running statistics may lag behind in training."""
    owed = 0.0

    def set_threshold(gate: GatedConv, response: Tensor) -> None:
        # at once, so that the next gates see its effect; where positions are few, or many have one
        # response, the next gates make up for the difference
        nonlocal owed
        total, each = response.numel(), gate.conv.weight.numel()
        wanted = min(max(0.0, share * total + owed / each), total)
        edge = response.flatten().kthvalue(max(1, total - round(wanted))).values
        # next to the edge, because on it rounding would decide
        sides = [(edge + side, int((response > edge + side).sum())) for side in (EPSILON, -EPSILON)]
        threshold, opened = min(sides, key=lambda side: abs(side[1] - wanted))
        gate.threshold.copy_(threshold)
        owed = (wanted - opened) * each

    fabric = fabric or make_fabric()
    with in_mode(network, training=False), _observed(network, set_threshold), torch.no_grad():
        recalibrate(network, _batches(split), fabric)
        owed = 0.0
        # once more with the final norms, and by many images together
        x, _ = next(iter(split.ordered(1)))
        many = max(FEWEST, PIXELS // (x.shape[2] * x.shape[3]))
        x, _ = next(iter(split.ordered(many)))
        network(fabric.to_device(x))


def _batches(split: Split) -> Iterator[Tensor]:
    # of about one size: a batch norm fails on a last batch of one image
    size = ceil(len(split) / ceil(len(split) / BATCH))
    return (x for x, _ in split.ordered(size))


@contextmanager
def _observed(network: nn.Module, observer: Callable[[GatedConv, Tensor], None]) -> Iterator[None]:
    """Within the context, the observer is called with the response of each gate, before its
    threshold."""
    hooks = [
        gate.norm.register_forward_hook(lambda _, __, response, gate=gate: observer(gate, response))
        for gate in _gates(network).values()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _seen_images(network: nn.Module) -> Iterator[list[int]]:
    """Within the context, the sizes of the batches that go through the network are recorded."""
    sizes: list[int] = []
    hook = network.register_forward_pre_hook(lambda _, inputs: sizes.append(len(inputs[0])))
    try:
        yield sizes
    finally:
        hook.remove()


def meet_budget(
    network: nn.Module, space: Space, budget: Budget, split: Split, fabric: Fabric | None = None
) -> None:
    """Set the thresholds so that the mean cost of these images is the target."""
    smallest, largest = cost_range(network, space)
    share, low, high = (budget.value - smallest) / (largest - smallest), 0.0, 1.0
    for _ in range(TRIES):
        set_thresholds(network, share, split, fabric)
        off = measured_cost(network, space, split, fabric) - budget.value
        if abs(off) <= (budget.high - budget.low) / 20:
            return
        (low, high) = (low, share) if off > 0 else (share, high)
        # not linear where many positions have one response, as those of an empty background
        share -= off / (largest - smallest)
        if not low < share < high:
            share = (low + high) / 2
