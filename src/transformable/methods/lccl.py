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
weights learn. The gates are put into a trained network, and start with the mean absolute filter:
where little comes in, little is computed.

Torch has no convolution that skips positions. Our layer computes all and multiplies, so the network
is not faster when its time is measured.
"""

import copy
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..budget import Budget
from ..cost import macs
from ..data import Split
from ..data.seeds import generator
from ..devices import make_fabric
from ..space import Space
from .method import Context, Found

__all__ = ["Gated", "bounds", "calibrate", "lccl", "measured_cost", "open_gates", "with_gates"]

LEAST = 4
"""A gate costs what one output channel does: not for a convolution of fewer channels than this."""
IMAGES = 1000
"""Training images that the thresholds are set by."""
BATCH = 250
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
        """One channel; zero where the convolution is skipped."""
        return F.relu(self.norm(self.low(x)) - self.threshold)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x) * self.gate(x)  # type: ignore[no-any-return]


def lccl(model: nn.Module, space: Space, budget: Budget, context: Context) -> Found:
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
    for gate in _gates(network).values():
        # to begin with: what a norm gives is about normal
        gate.threshold.fill_(NormalDist().inv_cdf(1 - share))
    known = _some(context.dataset.train, context.seed)
    settle = _settle(space, budget, context, known)
    context.train(network, each_epoch=lambda net: open_gates(net, share, known, context.fabric))
    cost = settle(network)
    notes = {
        "measured": True,
        "share": (cost - smallest) / (largest - smallest),
        "gates": len(_gates(network)),
        "time": "all positions are computed and then multiplied by the gates, so it is not faster",
    }
    network.train(model.training)
    return Found(shape=space.full, model=network, cost=cost, notes=notes, settle=settle)


def with_gates(model: nn.Module, space: Space) -> nn.Module:
    """A copy of the network with a gate beside each convolution but the first."""
    network = copy.deepcopy(model)
    layers = sorted((x for x in space.layers if x.kind == "conv"), key=lambda layer: layer.order)
    for layer in layers[1:]:
        conv = network.get_submodule(layer.name)
        if isinstance(conv, nn.Conv2d) and conv.out_channels >= LEAST:
            network.set_submodule(layer.name, Gated(conv))
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
    computed = 0

    def count(gate: Any, inputs: tuple[Tensor]) -> None:
        nonlocal computed
        computed += (gate.gate(inputs[0]) > 0).sum().item() * gate.conv.weight.numel()

    _watch(network, split, fabric, count)
    return round(bounds(network, space)[0] + computed / len(split))


def open_gates(
    network: nn.Module, share: float, split: Split, fabric: Fabric | None = None
) -> None:
    """Set the thresholds so that each gate lets this share of the positions pass."""
    sums = {id(gate): 0.0 for gate in _gates(network).values()}

    def split_at(gate: Any, inputs: tuple[Tensor]) -> None:
        # right for this batch at once, so that the next gate sees what it will see
        response = gate.norm(gate.low(inputs[0])).float()
        closed = min(max(1, round((1 - share) * response.numel())), response.numel())
        gate.threshold.copy_(response.flatten().kthvalue(closed).values)
        sums[id(gate)] += float(gate.threshold) * len(response)

    _watch(network, split, fabric, split_at)
    for gate in _gates(network).values():
        gate.threshold.fill_(sums[id(gate)] / len(split))


def _watch(
    network: nn.Module,
    split: Split,
    fabric: Fabric | None,
    watcher: Callable[[Any, tuple[Tensor]], None],
) -> None:
    """Run all images through the network, each gate told to the watcher before it runs."""
    fabric = fabric or make_fabric()
    network.to(fabric.device)
    was_training = network.training
    network.eval()
    hooks = [gate.register_forward_pre_hook(watcher) for gate in _gates(network).values()]
    try:
        with torch.no_grad(), fabric.autocast():
            for x, _ in split.ordered(BATCH):
                network(fabric.to_device(x))
    finally:
        for hook in hooks:
            hook.remove()
        network.train(was_training)


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

    def settle(network: nn.Module) -> int:
        # by training images; if the few that are held out are unlike them, by those
        for split in (known, held_out):
            calibrate(network, space, budget, split, context.fabric)
            cost = measured_cost(network, space, held_out, context.fabric)
            if budget.holds(cost):
                return cost
        raise ValueError(
            f"lccl finds no threshold with {budget.low:,} to {budget.high:,} MACs, only one with "
            f"{cost:,}; use a larger tolerance"
        )

    return settle


def _some(split: Split, seed: int) -> Split:
    picked = generator("lccl", seed).permutation(len(split))[:IMAGES]
    return split.subset(torch.from_numpy(picked))
