"""SuperNet: a traced network whose widths and depths are drawn at every forward pass.

A layer convolves at full width and normalises once. The drawn candidates, each with its own scale
and shift, aligned by channel-wise interpolation (CWI) and weighted, add up to one matrix:

    sum_j w_j CWI(gamma_j * x[:C_j] + beta_j) = M x + b,    M = sum_j w_j P_j diag(gamma_j)

so the cost does not depend on how many are drawn. Channels past the widest drawn candidate are zero
and stay zero: every tensor keeps its full shape, and an add of different widths is a plain add.
"""

from collections.abc import Mapping
from itertools import compress
from typing import Any, get_args

import torch
from torch import Tensor, nn

from ..costing.expected_cost import Expectation
from ..settings import Align, Sampling
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from .candidate_norms import make_candidate_norms
from .channel_matrix import ChannelMatrix
from .interpolation import interpolation_matrix
from .mixed_layer import MixedDepths
from .rewrite import rewrite
from .sampling import Draw, draw_gumbel, most_probable_sizes, softmax_mixture

__all__ = ["SuperNet"]


class SuperNet(nn.Module):
    """A network whose widths and depths can be searched by gradient descent.

    `tau` is the temperature of a draw; the probabilities are the softmax of `sharpness` times the
    logits.

    >>> from transformable import Space, models
    >>> model = models.build("resnet20")
    >>> net = SuperNet(model, Space.trace(model, (3, 32, 32)))
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> small = net.extract(net.argmax())
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
        self.tau, self.sharpness = 10.0, 1.0
        self.generator = torch.Generator().manual_seed(0)
        self.expectation = Expectation(space)
        self.alpha, absent_widths = _make_logits(space.widths)
        self.beta, absent_depths = _make_logits(space.depths)
        self.register_buffer("absent_widths", absent_widths, persistent=False)
        self.register_buffer("absent_depths", absent_depths, persistent=False)
        self.rewritten = rewrite(model, space)
        self.body = self.rewritten.body
        # state dicts know them by this name
        self.groups = make_candidate_norms(self.rewritten.layers, space, align)
        self.rows = {name: i for i, name in enumerate(space.widths)}

    def forward(self, x: Tensor, draw: Draw | None = None) -> Tensor:
        """Logits. The default is a new draw in training mode, the most probable sizes otherwise."""
        draw = draw or (self.draw() if self.training else self.most_probable_sizes())
        return self.body(x, self._controls(draw, x))  # type: ignore[no-any-return]

    def draw(self) -> Draw:
        """A new draw, by the `sampling` of this supernet."""
        if self.sampling == "softmax":
            return self.softmax_mixture()
        return draw_gumbel(
            *self._logits(), tau=self.tau, select=self.select, generator=self.generator
        )

    def softmax_mixture(self) -> Draw:
        """All candidates, weighted by their probabilities."""
        return softmax_mixture(*self._logits())

    def most_probable_sizes(self) -> Draw:
        """The candidates of the largest probabilities alone."""
        return most_probable_sizes(*self._logits())

    def extract(self, shape: Shape) -> nn.Module:
        """The small ordinary network of a shape, as `slim` makes it, with the supernet's weights.

        Each norm has the scale and shift of the candidate that the shape chooses and the running
        statistics that all candidates share. In eval mode it computes what the supernet computes
        when it draws this shape, but for shortcuts that `residual="project"` projects.
        """
        self.space.check(shape)
        for name, sizes in self.space.widths.items():
            if shape.widths[name] not in sizes:
                raise ValueError(
                    f"the supernet has no weights for the layer {name!r} at width "
                    f"{shape.widths[name]}: its candidates are {', '.join(map(str, sizes))}"
                )
            if name in shape.channels:
                raise ValueError(
                    f"the supernet keeps leading channels, but the shape picks those of {name!r}"
                )
        affine = {
            name: scale_and_shift
            for norms in self.groups
            for name, scale_and_shift in norms.affine_at(shape.widths)  # type: ignore[operator]
        }
        network, space = self.rewritten.restore(affine), self.space
        if space.largest != space.full:
            # the largest candidates are not the widths of the model
            space = space.retrace(network)
        return slim(network, space, shape)

    @torch.no_grad()
    def set_logits(self, logits: Mapping[str, Tensor]) -> None:
        """Replace the logits of each layer and stage, one for each candidate."""
        for parameter, rows in ((self.alpha, self.space.widths), (self.beta, self.space.depths)):
            for i, (name, sizes) in enumerate(rows.items()):
                parameter[i, : len(sizes)] = logits[name].to(parameter)

    def architecture_parameters(self) -> list[nn.Parameter]:
        """The logits of the widths (alpha) and of the depths (beta)."""
        return [self.alpha, self.beta]

    def weight_parameters(self) -> list[nn.Parameter]:
        """All parameters but the architecture parameters."""
        return [p for p in self.parameters() if p is not self.alpha and p is not self.beta]

    def probabilities(self) -> dict[str, Tensor]:
        """The probabilities of the candidates of each layer and stage, in float64."""
        rows: dict[str, Tensor] = {}
        names = (self.space.widths, self.space.depths)
        for logits, candidates in zip(self._logits(), names, strict=True):
            p = logits.cpu().double().softmax(1).unbind()
            rows |= {
                name: row[: len(sizes)]
                for row, (name, sizes) in zip(p, candidates.items(), strict=True)
            }
        return rows

    def expected_macs(self) -> Tensor:
        """The mean MACs over all shapes; differentiable."""
        return self.expectation.macs(self.probabilities())

    def argmax(self) -> Shape:
        """The shape of the largest probabilities."""
        best: dict[str, int] = {}
        names = (self.space.widths, self.space.depths)
        for logits, candidates in zip(self._logits(), names, strict=True):
            best |= zip(candidates, logits.argmax(1).tolist(), strict=True)
        return self.space.shape_at(best)

    def discrepancy(self) -> float:
        """The largest probability minus the second largest, averaged over layers and stages."""
        gaps = [p.topk(2).values for p in self._probabilities()]
        return float(torch.cat([gap[:, 0] - gap[:, 1] for gap in gaps]).mean()) if gaps else 1.0

    def entropy(self) -> float:
        """The entropy of the probabilities in nats, averaged over layers and stages."""
        entropies = [torch.special.entr(p).sum(1) for p in self._probabilities()]
        return float(torch.cat(entropies).mean()) if entropies else 0.0

    def _probabilities(self) -> list[Tensor]:
        """Of the widths and of the depths, without rows that have one candidate only."""
        p = [logits.detach().softmax(1) for logits in self._logits()]
        absent = self.absent_widths, self.absent_depths
        counts = [(~rows).sum(1) for rows in absent]  # type: ignore[operator]
        return [rows[n > 1] for rows, n in zip(p, counts, strict=True) if rows.shape[1] > 1]

    def _logits(self) -> tuple[Tensor, Tensor]:
        never = float("-inf")
        alpha, beta = (self.sharpness * logits for logits in self.architecture_parameters())
        alpha = alpha.masked_fill(self.absent_widths, never)  # type: ignore[arg-type]
        return alpha, beta.masked_fill(self.absent_depths, never)  # type: ignore[arg-type]

    def _controls(self, draw: Draw, x: Tensor) -> dict[Any, Any]:
        """The second input of the body: channel matrices, masks and mixed depths."""
        controls: dict[Any, Any] = {}
        for norms in self.groups:
            choices: list[str | None] = norms.choices  # type: ignore[assignment]
            if None in choices:  # the only candidate of each
                weights = draw.weights.new_ones(len(choices), 1)
                candidates = torch.zeros_like(weights, dtype=torch.long)
            else:
                rows = [self.rows[choice] for choice in choices if choice]
                candidates, weights = draw.candidates[rows], draw.weights[rows]
            for name, mix in norms(candidates, weights):
                controls[name] = mix.to(x.dtype)
        drawn = dict(zip(self.space.depths, (draw.depths > 0).tolist(), strict=True))
        depths = {stage: list(compress(self.space.depths[stage], drawn[stage])) for stage in drawn}
        used = torch.where(draw.weights > 0, draw.candidates, 0).max(1).values.tolist()
        names = self.space.widths.items()
        widest = {name: sizes[i] for (name, sizes), i in zip(names, used, strict=True)}
        masks = self.rewritten.masks(widest, depths)
        layouts = self.rewritten.space.layouts
        for index in self.rewritten.masked:
            present = torch.tensor([masks[index] >> i & 1 for i in range(layouts[index].size)])
            controls[index] = present.to(x)
        for stage, weights in zip(drawn, draw.depths.to(x.dtype), strict=True):
            outputs = self.rewritten.stage_outputs[stage]
            widths = [masks[output].bit_length() for output in outputs]
            used = list(dict.fromkeys(compress(widths, drawn[stage])))
            alignments = self._alignments(used, layouts[outputs[0]].size, x)
            total_of = [used.index(w) if w in used[: len(alignments)] else 0 for w in widths]
            controls[stage] = MixedDepths(weights.unbind(), total_of, alignments)
        return controls

    def _alignments(self, widths: list[int], size: int, x: Tensor) -> list[ChannelMatrix | None]:
        """What aligns outputs of these widths; one None if they can be added as they are."""
        if self.align == "pad":  # absent channels are zero already
            return [None]
        widest, kind = max(widths), (self.align, x.dtype, x.device)
        return [
            None if width == widest else interpolation_matrix(width, widest, size, *kind)
            for width in widths
        ]


def _make_logits(candidates: Mapping[str, tuple[int, ...]]) -> tuple[nn.Parameter, Tensor]:
    """Logits with one row per layer or stage, and where a row has fewer candidates than others."""
    counts = torch.tensor([len(sizes) for sizes in candidates.values()], dtype=torch.long)
    longest = int(counts.max()) if len(counts) else 1
    absent = torch.arange(longest) >= counts[:, None]
    return nn.Parameter(0.01 * torch.randn(absent.shape)), absent
