"""Random search: draw shapes inside the budget, train each briefly, keep the best.

The baseline of DARTS: Differentiable Architecture Search. Liu, Simonyan, Yang. ICLR 2019.
Each shape starts from the channels of the trained network, gets its share of the passes of a
search, and is tested on held-out images, which counts too. The network of the best shape is
returned with the weights that it has learnt.
"""

import math
from dataclasses import replace

import torch
from torch import nn

from ..costing.budget import Budget
from ..searching.derive import derive
from ..shape import Shape
from ..tracing.space import Space
from .interface import Context, MethodResult

__all__ = ["draw_shape", "random"]

SHAPES = 8  # shapes that are trained
TRIES = 5_000  # samples of the space before a shape is derived from random probabilities instead


def random(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    generator = torch.Generator().manual_seed(context.session.seed)
    # all shapes together spend the passes of one search
    share = context.searching.epochs / SHAPES
    tested = context.forward_passes(len(context.dataset.validation))
    trained = max(0.0, share - tested)
    context = replace(context, session=replace(context.session, run=None)).shortened(trained)
    scores: dict[Shape, float] = {}
    best: nn.Module = model
    for _ in range(SHAPES):
        shape = draw_shape(space, budget, generator)
        if shape in scores:
            continue
        small = context.slim_sorted(model, space, shape)
        score = context.train(small).score
        if score > max(scores.values(), default=-math.inf):
            best = small
        scores[shape] = score
    shape = max(scores, key=lambda each: scores[each])
    notes = {"held_out_scores": [round(value, 4) for value in scores.values()]}
    passes = (trained + tested) * len(scores)
    cost = budget.cost(space, shape)
    return MethodResult(shape=shape, model=best, cost=cost, notes=notes, passes=passes)


def draw_shape(space: Space, budget: Budget, generator: torch.Generator) -> Shape:
    """A random shape inside the budget: uniform over all of them, unless they are too rare."""
    for _ in range(TRIES):
        shape = space.sample(generator)
        if budget.allows(space, shape):
            return shape
    probabilities = {
        name: torch.randn(len(sizes), generator=generator).softmax(0)
        for name, sizes in space.candidates.items()
    }
    return derive(probabilities, space, budget).shape
