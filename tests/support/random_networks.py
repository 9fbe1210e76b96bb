"""Random small networks: convolutions, norms, adds, concatenations, pools and a linear layer."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor, nn

from support.counted_costs import counted_macs, counted_params
from support.networks import randomise
from transformable import Space, macs, params, slim

__all__ = ["Case", "cases", "check_case"]

SIDE = 8


class RandomNetwork(nn.Module):
    """Layers in the order of a plan; each reads tensors that were made before it."""

    def __init__(self, plan: list[tuple[str, tuple[int, ...], int]]) -> None:
        super().__init__()
        self.plan = plan
        self.layers = nn.ModuleDict()
        sizes = [(3, SIDE)]
        for number, (kind, read, width) in enumerate(plan):
            channels, side = sizes[read[0]]
            if kind == "concatenate":
                sizes.append((sum(sizes[index][0] for index in read), side))
                continue
            if kind == "add":
                sizes.append((channels, side))
                continue
            layer, out = _layer(kind, channels, width)
            self.layers[str(number)] = layer
            sizes.append((out, side // 2 if kind in ("pool", "strided") else side))
        self.head = nn.Linear(sizes[-1][0], 5)
        self.sizes = sizes

    def forward(self, x: Tensor) -> Tensor:
        made = [x]
        for number, (kind, read, _) in enumerate(self.plan):
            inputs = [made[index] for index in read]
            if kind == "concatenate":
                made.append(torch.cat(inputs, 1))
            elif kind == "add":
                made.append(inputs[0] + inputs[1])
            else:
                made.append(self.layers[str(number)](inputs[0]))
        return self.head(F.adaptive_avg_pool2d(made[-1], 1).flatten(1))  # type: ignore[no-any-return]


def _layer(kind: str, channels: int, width: int) -> tuple[nn.Module, int]:
    """A layer and the number of channels that it gives."""
    if kind == "norm":
        return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU()), channels
    if kind == "pool":
        return nn.MaxPool2d(2), channels
    if kind == "depthwise":
        return nn.Conv2d(channels, channels, 3, padding=1, groups=channels), channels
    if kind == "grouped":
        groups = 2 if channels % 2 == 0 else 1
        return nn.Conv2d(channels, 2 * width, 1, groups=groups, bias=False), 2 * width
    stride = 2 if kind == "strided" else 1
    conv = nn.Conv2d(channels, width, 3, stride, 1, bias=width % 2 == 0)
    return nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU()), width


@dataclass(frozen=True)
class Case:
    """A network by its plan, how to trace it, and a seed for weights and shapes."""

    plan: list[tuple[str, tuple[int, ...], int]]
    residual: str
    divisor: int
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    plan: list[tuple[str, tuple[int, ...], int]] = [("conv", (0,), draw(st.integers(2, 9)))]
    for _ in range(draw(st.integers(1, 9))):
        sizes = RandomNetwork(plan).sizes
        # mostly the newest tensor, so that the network is deep and little of it is left unused
        first = draw(st.sampled_from([len(plan), len(plan), draw(st.integers(1, len(plan)))]))
        like = [i for i, size in enumerate(sizes) if i and size == sizes[first]]
        same_side = [i for i, size in enumerate(sizes) if i and size[1] == sizes[first][1]]
        kinds = ["conv", "norm", "depthwise", "grouped", "add", "concatenate"]
        kinds += ["pool", "strided"] if sizes[first][1] >= 4 else []
        kind = draw(st.sampled_from(kinds))
        read: tuple[int, ...] = (first,)
        if kind in ("add", "concatenate"):
            read = (first, draw(st.sampled_from(like if kind == "add" else same_side)))
        plan.append((kind, read, draw(st.integers(1, 9))))
    residual = draw(st.sampled_from(["pad", "project", "tied"]))
    return Case(plan, residual, draw(st.sampled_from([1, 1, 2, 4])), draw(st.integers(0, 99)))


def check_case(case: Case) -> str:
    """Trace and slim the network; the costs must be what torch counts, the full shape the network.

    Says what was seen: "traced", or the ValueError of a network that is refused.
    """
    torch.manual_seed(case.seed)
    network = randomise(RandomNetwork(case.plan), case.seed).eval()
    generator = torch.Generator().manual_seed(case.seed)
    x = torch.randn(2, 3, SIDE, SIDE, generator=generator)
    refusal = ""
    try:
        space = Space.trace(
            network,
            (3, SIDE, SIDE),
            residual=case.residual,  # type: ignore[arg-type]
            divisor=case.divisor,
        )
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "\n" not in refusal
        return refusal
    assert torch.equal(slim(network, space, space.full)(x), network(x))
    for shape in (space.full, space.smallest, space.sample(generator), space.sample(generator)):
        small = slim(network, space, shape)
        assert macs(space, shape) == counted_macs(small, (3, SIDE, SIDE))
        assert params(space, shape) == counted_params(small)
        assert small(x).isfinite().all()
    return "traced"
