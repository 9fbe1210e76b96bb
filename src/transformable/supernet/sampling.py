"""Draws of sizes: which candidates a forward pass uses, and with what weights (eq. 3 and 4)."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Draw", "draw_gumbel", "most_probable_sizes", "softmax_mixture"]


@dataclass(frozen=True)
class Draw:
    """The candidates that one forward pass uses, as rows for layers and stages.

    The functions below make one from logits: `alpha` of the widths, `beta` of the depths, one row
    per layer or stage, -inf where a row has fewer candidates than the longest.
    """

    candidates: Tensor
    """(layer, drawn): the indices of the drawn candidate widths."""
    weights: Tensor
    """(layer, drawn): the weights of the drawn widths, which sum to 1."""
    depths: Tensor
    """(stage, candidate): the weights of all depths, which sum to 1."""


def draw_gumbel(
    alpha: Tensor, beta: Tensor, *, tau: float, select: int, generator: torch.Generator
) -> Draw:
    """`select` widths per layer without replacement, by their Gumbel-softmax probabilities.

    The weights are the probabilities of the drawn candidates, normalised again; gradients flow
    through them. All depths are used.
    """
    logits = _add_gumbel_noise(alpha, generator) / tau
    # the largest of log-probabilities with Gumbel noise are a sample without replacement
    keys = _add_gumbel_noise(logits.detach(), generator)
    candidates = keys.topk(min(select, alpha.shape[1]), dim=1).indices.sort(1).values
    weights = _normalised(logits.gather(1, candidates))
    depths = _normalised(_add_gumbel_noise(beta, generator) / tau)
    return Draw(candidates, weights, depths)


def softmax_mixture(alpha: Tensor, beta: Tensor) -> Draw:
    """All candidates, weighted by their softmax probabilities."""
    everything = torch.arange(alpha.shape[1], device=alpha.device).expand_as(alpha)
    return Draw(everything, alpha.softmax(1), beta.softmax(1))


def most_probable_sizes(alpha: Tensor, beta: Tensor) -> Draw:
    """The candidate of the largest probability alone, for every layer and stage."""
    candidates = alpha.argmax(1, keepdim=True)
    depths = torch.zeros_like(beta).scatter(1, beta.argmax(1, keepdim=True), 1.0)
    return Draw(candidates, torch.ones_like(candidates, dtype=alpha.dtype), depths)


def _normalised(logits: Tensor) -> Tensor:
    """The softmax of each row, with zeros for what rounding hides beside the largest.

    Products of such weights over many layers would be denormal numbers, with which processors are
    several times slower.
    """
    weights = logits.softmax(1)
    return weights.where(weights >= torch.finfo(weights.dtype).eps, 0.0)


def _add_gumbel_noise(logits: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.empty(logits.shape, dtype=logits.dtype).exponential_(generator=generator)
    return logits.log_softmax(1) - noise.log().to(logits.device)
