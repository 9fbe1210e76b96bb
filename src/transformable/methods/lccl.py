"""More is Less: A More Complicated Network with Less Inference Complexity.
Dong, Huang, Yang, Yan. CVPR 2017.

Beside each convolution stands a low-cost one. What it gives, after a batch norm and a relu, is
multiplied with what the convolution gives; where it is zero, the convolution need not be computed.
No channel and no block goes: the network saves work image by image, at the positions that do not
matter, so what it costs has to be measured on images.

Of the paper's two low-cost layers ours is the kernel that all output channels share: a convolution
to one channel, which skips whole positions, also those of 1x1 convolutions. In the paper the
training alone decides how much is skipped. Here a threshold is subtracted before the relu, set anew
after each epoch so that every gate lets the same share of the positions pass, the share with which
the budget holds; the norm has no scale and shift of its own, so that this share stays while the
weights learn. The gates are put into a trained network, start with the mean absolute filter (where
little comes in, little is computed), and are at most 1: without that bound what layer after layer
multiplies grew without end, where no norm follows.

Torch has no convolution that skips positions. Our layer computes all and multiplies, so the network
is not faster when its time is measured.
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

from ..costing.budget import Budget
from ..costing.cost import layer_costs, macs
from ..data import Split
from ..tracing.space import Space
from ..training.devices import make_fabric
from ._calibration import recalibrate, some
from .interface import Context, MethodResult

__all__ = ["Gated", "bounds", "calibrate", "lccl", "measured_cost", "open_gates", "with_gates"]

LEAST = 4
"""A gate costs what one output channel does: not for a convolution of fewer channels than this."""
CHEAP = 0.2
"""Nor for one that costs less than this share of the mean one. The projection of a shortcut is such
a one: there is little to win, and behind a closed gate there all of the stream is lost."""
IMAGES = 1000
"""Training images that the thresholds are set by."""
BATCH = 250
PIXELS, FEWEST = 1000 * 32 * 32, 64
"""Of the images that are looked at together, or at least so many of them."""
EPSILON = 1e-4
TRIES = 20


class Gated(nn.Module):
    """A convolution whose output counts where a low-cost one is above the threshold.

    >>> gated = Gated(nn.Conv2d(3, 8, 3, padding=1)).eval()
    >>> x = torch.rand(1, 3, 4, 4)
    >>> torch.equal(gated(x), gated.conv(x) * gated.gate(x))
    True
    """

    threshold: Tensor

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        like: Any = {"device": conv.weight.device, "dtype": conv.weight.dtype}
        self.conv = conv
        # its random start would be thrown away, and disturb the caller's random numbers
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
        """One channel, from 0 to 1; zero where the convolution is skipped."""
        return F.hardtanh(self.norm(self.low(x)) - self.threshold, 0.0, 1.0)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.gate(x)  # type: ignore[no-any-return]


def lccl(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Put in the gates, train, and set the threshold by what the network costs on images."""
    if budget.metric != "macs":
        raise ValueError("lccl saves no parameters, it adds some; use the metric macs")
    network = with_gates(model, space)
    smallest, largest = bounds(network, space)
    share = (budget.value - smallest) / (largest - smallest)
    if not 0 < share < 1:
        raise ValueError(
            f"a budget of {budget.value:,.0f} MACs is not possible with lccl: this network can "
            f"have {smallest:,} to {largest:,}"
        )
    known = some(context.dataset.train, IMAGES, context.session.seed)
    open_gates(network, share, known, context.session.fabric)

    def open_again(net: nn.Module) -> None:
        open_gates(net, share, known, context.session.fabric)

    context.train(network, each_epoch=open_again)
    restore_budget = _settle(space, budget, context, known)
    cost = restore_budget(network)
    notes = {
        "measured": True,
        "share": (cost - smallest) / (largest - smallest),
        "gates": len(_gates(network)),
        "time": "all positions are computed and then multiplied by the gates, so it is not faster",
    }
    network.train(model.training)
    return MethodResult(
        shape=space.full,
        model=network,
        cost=cost,
        notes=notes,
        each_epoch=open_again,
        restore_budget=restore_budget,
    )


def with_gates(model: nn.Module, space: Space) -> nn.Module:
    """A copy of the network with a gate beside each convolution but the first and the cheap."""
    network = copy.deepcopy(model)
    costs = [row for row in layer_costs(space, space.full) if row.kind == "conv"]
    cheap = CHEAP * sum(row.macs for row in costs) / max(1, len(costs))
    for row in costs[1:]:
        conv = network.get_submodule(row.name)
        if isinstance(conv, nn.Conv2d) and row.outputs >= LEAST and row.macs >= cheap:
            network.set_submodule(row.name, Gated(conv))
    if not _gates(network):
        raise ValueError(
            f"lccl needs convolutions of {LEAST} channels or more after the first; there are none"
        )
    return network


def _gates(network: nn.Module) -> dict[str, Gated]:
    return {name: part for name, part in network.named_modules() if isinstance(part, Gated)}


def bounds(network: nn.Module, space: Space) -> tuple[int, int]:
    """What an image costs with all gates closed, and with all open."""
    pixels = {layer.name: layer.pixels for layer in space.layers}
    gates = _gates(network).items()
    low = sum(gate.low.weight.numel() * pixels[name] for name, gate in gates)
    skipped = sum(gate.conv.weight.numel() * pixels[name] for name, gate in gates)
    largest = macs(space, space.full) + low
    return largest - skipped, largest


def measured_cost(
    network: nn.Module, space: Space, split: Split, fabric: Fabric | None = None
) -> int:
    """The MACs of an image, as a mean over these: all that is computed, low-cost layers included.

    `space` is that of the network without gates.
    """
    fabric = fabric or make_fabric()
    computed = 0

    def count(gate: Gated, response: Tensor) -> None:
        nonlocal computed
        computed += int((response > gate.threshold).sum()) * gate.conv.weight.numel()

    was_training = network.training
    network.to(fabric.device).eval()
    with torch.no_grad(), fabric.autocast(), _watched(network, count):
        for x in _batches(split):
            network(fabric.to_device(x))
    network.train(was_training)
    return round(bounds(network, space)[0] + computed / len(split))


def open_gates(
    network: nn.Module, share: float, split: Split, fabric: Fabric | None = None
) -> None:
    """Set the thresholds so that each gate lets this share of the positions pass.

    The batch norms, whose statistics in training may lag far behind, are calibrated with them.
    """

    owed = 0.0

    def divide(gate: Gated, response: Tensor) -> None:
        # at once, so that the next gate sees what it will see; where positions are few, or many
        # have one response, the next gates make up for what is missing
        nonlocal owed
        total, each = response.numel(), gate.conv.weight.numel()
        wanted = min(max(0.0, share * total + owed / each), total)
        edge = response.flatten().kthvalue(max(1, total - round(wanted))).values
        # beside the edge, not on it, where rounding would decide
        sides = [(edge + side, int((response > edge + side).sum())) for side in (EPSILON, -EPSILON)]
        threshold, opened = min(sides, key=lambda side: abs(side[1] - wanted))
        gate.threshold.copy_(threshold)
        owed = (wanted - opened) * each

    fabric = fabric or make_fabric()
    was_training = network.training
    with _watched(network, divide), torch.no_grad():
        recalibrate(network, _batches(split), fabric)
        owed = 0.0
        # and once more, now that the norms are what they will be, by many images together
        x, _ = next(iter(split.ordered(_many(split))))
        network(fabric.to_device(x))
    network.train(was_training)


def _many(split: Split) -> int:
    """Images that are looked at together: not more than fit into the memory."""
    x, _ = next(iter(split.ordered(1)))
    return max(FEWEST, PIXELS // (x.shape[2] * x.shape[3]))


def _batches(split: Split) -> Iterator[Tensor]:
    # of about one size: a norm can make nothing of a last one of a single image
    size = ceil(len(split) / ceil(len(split) / BATCH))
    return (x for x, _ in split.ordered(size))


@contextmanager
def _watched(network: nn.Module, watcher: Callable[[Gated, Tensor], None]) -> Iterator[None]:
    """The watcher is told what each low-cost layer gives, before the threshold is subtracted."""

    def told(gate: Gated, _: nn.Module, __: Any, response: Tensor) -> None:
        watcher(gate, response)

    gates = _gates(network).values()
    hooks = [gate.norm.register_forward_hook(partial(told, gate)) for gate in gates]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def calibrate(
    network: nn.Module, space: Space, budget: Budget, split: Split, fabric: Fabric | None = None
) -> None:
    """Open the gates so far that an image of this split costs what it may."""
    smallest, largest = bounds(network, space)
    share, low, high = (budget.value - smallest) / (largest - smallest), 0.0, 1.0
    for _ in range(TRIES):
        open_gates(network, share, split, fabric)
        off = measured_cost(network, space, split, fabric) - budget.value
        if abs(off) <= (budget.high - budget.low) / 20:
            return
        (low, high) = (low, share) if off > 0 else (share, high)
        # many positions may have one response, as those of an empty background: then the straight
        # line misses
        share -= off / (largest - smallest)
        if not low < share < high:
            share = (low + high) / 2


def _settle(
    space: Space, budget: Budget, context: Context, known: Split
) -> Callable[[nn.Module], int]:
    held_out = context.dataset.validation

    def restore_budget(network: nn.Module) -> int:
        # by training images; if the few that are held out are unlike them, by those
        for split in (known, held_out):
            calibrate(network, space, budget, split, context.session.fabric)
            cost = measured_cost(network, space, held_out, context.session.fabric)
            if budget.holds(cost):
                return cost
        raise ValueError(
            f"lccl finds no threshold with {budget.low:,} to {budget.high:,} MACs, only one with "
            f"{cost:,}; use a larger tolerance"
        )

    return restore_budget
