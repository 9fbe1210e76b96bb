"""Drawing sizes: which candidates a forward pass uses, and with what weights (eq. 3 and 4)."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Draw", "gumbel_draw", "likeliest", "mixture"]


@dataclass(frozen=True)
class Draw:
    """For each layer the candidates that are used and their weights; for each stage the weights
    of all its depths. Logits of -inf stand for candidates that are not there."""

    candidates: Tensor
    weights: Tensor
    depths: Tensor


def gumbel_draw(
    alpha: Tensor, beta: Tensor, *, tau: float, select: int, generator: torch.Generator
) -> Draw:
    """`select` candidates a layer without replacement, by their Gumbel-softmax probabilities.

    The gradient goes through the weights, which are the probabilities of the chosen ones
    normalised anew; of depths all are used.
    """
    logits = _noisy(alpha, generator) / tau
    # the largest of log-probabilities with Gumbel noise are a sample without replacement
    keys = _noisy(logits.detach(), generator)
    candidates = keys.topk(min(select, alpha.shape[1]), dim=1).indices.sort(1).values
    weights = logits.gather(1, candidates).softmax(1)
    depths = (_noisy(beta, generator) / tau).softmax(1)
    return Draw(candidates, weights, depths)


def mixture(alpha: Tensor, beta: Tensor) -> Draw:
    """All candidates, with their plain softmax probabilities."""
    everything = torch.arange(alpha.shape[1], device=alpha.device).expand_as(alpha)
    return Draw(everything, alpha.softmax(1), beta.softmax(1))


def likeliest(alpha: Tensor, beta: Tensor) -> Draw:
    """The largest probability alone."""
    candidates = alpha.argmax(1, keepdim=True)
    depths = torch.zeros_like(beta).scatter(1, beta.argmax(1, keepdim=True), 1.0)
    return Draw(candidates, torch.ones_like(candidates, dtype=alpha.dtype), depths)


def _noisy(logits: Tensor, generator: torch.Generator) -> Tensor:
    noise = torch.empty(logits.shape, dtype=logits.dtype).exponential_(generator=generator)
    return logits.log_softmax(1) - noise.log().to(logits.device)
