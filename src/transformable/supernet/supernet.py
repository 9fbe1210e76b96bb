"""SuperNet: a traced network whose widths and depths are drawn anew at every forward pass.

A layer convolves at full width and normalises once. The aggregate of the drawn candidates, each
with its own scale and shift, aligned by channel-wise interpolation and weighted, is one matrix:

    sum_j w_j CWI(gamma_j * x[:C_j] + beta_j) = M x + b,    M = sum_j w_j P_j diag(gamma_j)

so it costs the same however many are drawn. Channels past the widest drawn candidate are zero and
stay zero: every tensor keeps its full shape, and an add of different widths is a plain add.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, get_args

import torch
from torch import Tensor, nn

from ..costing.expected_cost import Expectation
from ..settings import Align, Sampling
from ..shape import Shape
from ..tracing.space import Space
from .interpolation import matrix, tables
from .mixed_layer import DepthMix, Mix
from .rewrite import Searchable, Twin
from .sampling import Draw, gumbel_draw, likeliest, mixture

__all__ = ["SuperNet"]


class Group(nn.Module):
    """The layers that have the same candidates: their scales and shifts, and their matrices."""

    def __init__(
        self, layers: Mapping[str, Searchable], candidates: tuple[int, ...], align: Align
    ) -> None:
        super().__init__()
        self.names, self.align = list(layers), align
        # they stay where they are, in 64 bits, which not every device has
        self.sources, self.portions = tables(candidates, align)
        scales = [layer.scale for layer in layers.values() if layer.scale is not None]
        shifts = [layer.shift for layer in layers.values() if layer.shift is not None]
        self.scale = self.shift = None
        if scales:
            # every candidate starts from what the network has learnt
            self.scale = nn.Parameter(torch.stack(scales)[:, None].repeat(1, len(candidates), 1))
            self.shift = nn.Parameter(torch.stack(shifts)[:, None].repeat(1, len(candidates), 1))

    def forward(self, candidates: Tensor, weights: Tensor) -> Iterator[tuple[str, Mix]]:
        """The matrix and shift of each layer, from its drawn candidates and their weights."""
        used = torch.where(weights.detach() > 0, candidates, 0)
        where = used.cpu(), used.max(1, keepdim=True).values.expand_as(used).cpu()
        sources = self.sources[where].to(weights.device)  # (layer, drawn, channel, 2)
        portions = self.portions[where].to(weights) * weights[:, :, None, None]
        layers, drawn, channels, _ = sources.shape
        flat = sources.permute(0, 2, 1, 3).reshape(layers, channels, drawn * 2)
        values, shift = portions, None
        if self.scale is not None and self.shift is not None:
            each = torch.arange(layers, device=used.device)[:, None]
            values = portions * _take(self.scale[each, used], sources)
            shift = (portions * _take(self.shift[each, used], sources)).sum((1, 3))
        if self.align == "pad":
            matrices = values.sum((1, 3))  # nothing moves: they are diagonal
        else:
            values = values.permute(0, 2, 1, 3).reshape(layers, channels, drawn * 2)
            matrices = values.new_zeros(layers, channels, channels).scatter_add(2, flat, values)
        shifts = [None] * layers if shift is None else shift.unbind()
        yield from zip(self.names, zip(matrices.unbind(), shifts, strict=True), strict=True)


def _take(rows: Tensor, sources: Tensor) -> Tensor:
    """rows (layer, drawn, channel) at sources (layer, drawn, channel, 2)."""
    return rows.gather(2, sources.flatten(2)).view(sources.shape)


class SuperNet(nn.Module):
    """The searchable twin of a network.

    >>> from transformable import Space, models
    >>> model = models.build("resnet20")
    >>> net = SuperNet(model, Space.trace(model, (3, 32, 32)))
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(
        self,
        model: nn.Module,
        space: Space,
        select: int = 2,
        align: Align = "pool",
        sampling: Sampling = "gumbel",
    ) -> None:
        super().__init__()
        if select < 1:
            raise ValueError(f"select must be at least 1, not {select}")
        if sampling not in get_args(Sampling):
            raise ValueError(f"sampling must be one of {get_args(Sampling)}, not {sampling!r}")
        self.space, self.select, self.align, self.sampling = space, select, align, sampling
        self.tau = 10.0
        self.generator = torch.Generator().manual_seed(0)
        self.expectation = Expectation(space)
        self.alpha, no_width = _logits(space.widths)
        self.beta, no_depth = _logits(space.depths)
        self.register_buffer("no_width", no_width, persistent=False)
        self.register_buffer("no_depth", no_depth, persistent=False)
        self.rows = {name: i for i, name in enumerate(space.widths)}
        self.twin = Twin(model, space)
        self.body = self.twin.body
        self.groups = nn.ModuleList(_groups(self.twin.mixed, space, align))

    def forward(self, x: Tensor, draw: Draw | None = None) -> Tensor:
        """Logits; without a draw, a fresh one in training and the likeliest sizes otherwise."""
        draw = draw or (self.drawn() if self.training else self.likeliest())
        output: Tensor = self.body(x, self._mixes(draw, x))
        return output

    def drawn(self) -> Draw:
        """A fresh draw."""
        if self.sampling == "softmax":
            return self.mixture()
        return gumbel_draw(
            *self._logits(), tau=self.tau, select=self.select, generator=self.generator
        )

    def mixture(self) -> Draw:
        """All candidates by their probabilities."""
        return mixture(*self._logits())

    def likeliest(self) -> Draw:
        """The candidates of the largest probabilities."""
        return likeliest(*self._logits())

    def architecture_parameters(self) -> list[nn.Parameter]:
        """The logits of widths and depths."""
        return [self.alpha, self.beta]

    def weight_parameters(self) -> list[nn.Parameter]:
        """Everything else."""
        return [p for p in self.parameters() if p is not self.alpha and p is not self.beta]

    def probabilities(self) -> dict[str, Tensor]:
        """The probabilities of the candidates of each layer and stage, in 64 bits."""
        tables = zip(self._logits(), (self.space.widths, self.space.depths), strict=True)
        return {
            name: row[: len(sizes)]
            for logits, candidates in tables
            for row, (name, sizes) in zip(
                logits.cpu().double().softmax(1).unbind(), candidates.items(), strict=True
            )
        }

    def expected_macs(self) -> Tensor:
        """The mean MACs over all shapes; differentiable."""
        return self.expectation.macs(self.probabilities())

    def expected_params(self) -> Tensor:
        """The mean number of parameters over all shapes; differentiable."""
        return self.expectation.params(self.probabilities())

    def argmax(self) -> Shape:
        """The shape of the largest probabilities."""
        best = (logits.argmax(1).tolist() for logits in self._logits())
        names = (self.space.widths, self.space.depths)
        return self.space.shape_at(
            {
                n: i
                for rows, at in zip(names, best, strict=True)
                for n, i in zip(rows, at, strict=True)
            }
        )

    def discrepancy(self) -> float:
        """The largest probability minus the second largest, on average over layers and stages."""
        gaps = [p.topk(2).values for p in self._rows()]
        return float(torch.cat([gap[:, 0] - gap[:, 1] for gap in gaps]).mean()) if gaps else 1.0

    def entropy(self) -> float:
        """The mean entropy of those rows, in nats."""
        rows = self._rows()
        return (
            float(torch.cat([torch.special.entr(p).sum(1) for p in rows]).mean()) if rows else 0.0
        )

    def _rows(self) -> list[Tensor]:
        """The probabilities of all layers and stages that have a choice."""
        rows = [logits.detach().softmax(1) for logits in self._logits()]
        counts = (~self.no_width).sum(1), (~self.no_depth).sum(1)  # type: ignore[operator]
        return [p[n > 1] for p, n in zip(rows, counts, strict=True) if p.shape[1] > 1]

    def _logits(self) -> tuple[Tensor, Tensor]:
        never = float("-inf")
        alpha = self.alpha.masked_fill(self.no_width, never)  # type: ignore[arg-type]
        return alpha, self.beta.masked_fill(self.no_depth, never)  # type: ignore[arg-type]

    def _mixes(self, draw: Draw, x: Tensor) -> dict[Any, Any]:
        """What the body needs: the matrices of layers and stages, the masks of dead channels."""
        mixes: dict[Any, Any] = {}
        for group in self.groups:
            assert isinstance(group, Group)
            rows = [self.rows[self.twin.mixed[name].choice] for name in group.names]
            mixes.update(group(draw.candidates[rows], draw.weights[rows]))
        used = self._used_depths(draw)
        masks = self.twin.masks(self._widest(draw), used)
        for index, size in self.twin.masked.items():
            alive = torch.tensor([masks[index] >> i & 1 for i in range(size)])
            mixes[index] = alive.to(x)
        for row, (stage, parts) in enumerate(self.twin.ends.items()):
            if parts:
                widths = [masks[part].bit_length() for part in parts]
                among = [depth in used[stage] for depth in self.space.depths[stage]]
                mixes[stage] = self._depth_mix(stage, widths, among, draw.depths[row], x)
        return mixes

    def _depth_mix(
        self, stage: str, widths: list[int], among: list[bool], weights: Tensor, x: Tensor
    ) -> DepthMix:
        """Of outputs with these widths, of which some are not among those that are mixed."""
        each = list(dict.fromkeys(w for w, used in zip(widths, among, strict=True) if used))
        size = self.twin.sizes[stage]
        alignments = [_alignment(width, max(each), size, self.align, x) for width in each]
        if not any(alignment is not None for alignment in alignments):
            each, alignments = each[:1], [None]
        groups = [each.index(width) if width in each else 0 for width in widths]
        return DepthMix(weights.to(x.dtype).unbind(), groups, alignments)

    def _used_depths(self, draw: Draw) -> dict[str, list[int]]:
        rows = zip(self.space.depths.items(), (draw.depths > 0).tolist(), strict=True)
        return {
            stage: [size for size, used in zip(sizes, row, strict=False) if used]
            for (stage, sizes), row in rows
        }

    def _widest(self, draw: Draw) -> dict[str, int]:
        used = torch.where(draw.weights > 0, draw.candidates, 0).max(1).values.tolist()
        names = self.space.widths.items()
        return {name: sizes[i] for (name, sizes), i in zip(names, used, strict=True)}


def _logits(candidates: Mapping[str, tuple[int, ...]]) -> tuple[nn.Parameter, Tensor]:
    """One row a layer or stage, as long as the longest, and where there is no candidate."""
    counts = torch.tensor([len(sizes) for sizes in candidates.values()], dtype=torch.long)
    longest = int(counts.max()) if len(counts) else 1
    absent = torch.arange(longest) >= counts[:, None]
    return nn.Parameter(0.01 * torch.randn(absent.shape)), absent


def _groups(mixed: Mapping[str, Searchable], space: Space, align: Align) -> Iterator[Group]:
    kinds: dict[tuple[tuple[int, ...], bool], dict[str, Searchable]] = {}
    for name, layer in mixed.items():
        kind = space.widths[layer.choice], layer.scale is not None
        kinds.setdefault(kind, {})[name] = layer
    for (candidates, _), layers in kinds.items():
        yield Group(layers, candidates, align)


def _alignment(narrow: int, wide: int, size: int, align: Align, like: Tensor) -> Tensor | None:
    # padded channels are zero already
    if narrow == wide or align == "pad":
        return None
    return _square(narrow, wide, size, align, like.dtype, like.device)


@lru_cache(maxsize=1000)
def _square(
    narrow: int, wide: int, size: int, align: Align, dtype: torch.dtype, device: torch.device
) -> Tensor:
    whole = torch.zeros(size, size, dtype=torch.float64)
    whole[:wide, :narrow] = matrix(narrow, wide, align)
    return whole.to(device=device, dtype=dtype)
