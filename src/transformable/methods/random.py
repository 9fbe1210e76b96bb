"""Random search: draw shapes inside the budget, train each briefly, keep the best.

The baseline of DARTS: Differentiable Architecture Search. Liu, Simonyan, Yang. ICLR 2019.
Each shape starts from the channels of the trained network, and is judged on held-out images.
"""

from dataclasses import replace

import torch
from torch import nn

from ..costing.budget import Budget
from ..searching.derive import derive
from ..shape import Shape
from ..tracing.space import Space
from ..training.distill import small_network
from .interface import Context, Found

__all__ = ["draw", "random"]

SHAPES = 8
TRIES = 5_000


def random(model: nn.Module, space: Space, budget: Budget, context: Context) -> Found:
    """Draw, train, keep the best."""
    generator = torch.Generator().manual_seed(context.seed)
    # together about as long as one search
    brief = replace(context.searching, epochs=max(1, context.searching.epochs // SHAPES))
    tried: dict[Shape, float] = {}
    best: nn.Module = model
    for _ in range(SHAPES):
        shape = draw(space, budget, generator)
        if shape in tried:
            continue
        small = small_network(model, space, shape, transfer="init", sort=True, seed=context.seed)
        accuracy = replace(context, searching=brief, run=None).train(small).accuracy
        if accuracy > max(tried.values(), default=-1.0):
            best = small
        tried[shape] = accuracy
    shape = max(tried, key=lambda each: tried[each])
    return Found(
        shape=shape,
        model=best,
        cost=budget.cost(space, shape),
        notes={"held_out_accuracies": [round(value, 4) for value in tried.values()]},
    )


def draw(space: Space, budget: Budget, generator: torch.Generator) -> Shape:
    """A random shape inside the band: uniform over all of them where they are not too rare."""
    for _ in range(TRIES):
        shape = space.sample(generator)
        if budget.holds(budget.cost(space, shape)):
            return shape
    candidates = space.candidates
    probabilities = {
        name: torch.randn(len(sizes), generator=generator).softmax(0)
        for name, sizes in candidates.items()
    }
    return derive(probabilities, space, budget).shape
