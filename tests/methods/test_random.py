"""Shapes drawn at random inside a band."""

import torch

from transformable import Budget, Space, macs, models, params
from transformable.costing.budget import limit_of
from transformable.methods.random import draw_shape


def test_drawn_shapes_are_inside_the_band_and_differ() -> None:
    space = Space.trace(models.build("resnet20"), (3, 16, 16))
    full = macs(space, space.full)
    generator = torch.Generator().manual_seed(0)
    wide, narrow = Budget.of(0.3, space), Budget.of(0.305, space, tolerance=0.015)
    fractions = [macs(space, draw_shape(space, wide, generator)) / full for _ in range(20)]
    assert all(0.285 <= fraction <= 0.315 for fraction in fractions)
    assert len(set(fractions)) > 10
    assert 0.3 * full <= macs(space, draw_shape(space, narrow, generator)) <= 0.31 * full
    # hardly any random shape costs as much, so that the most probable of random weights is taken
    rare = Budget.of(0.95, space, tolerance=0.02)
    assert rare.holds(macs(space, draw_shape(space, rare, generator)))


def test_drawn_shapes_keep_to_other_limits() -> None:
    space = Space.trace(models.build("resnet20"), (3, 16, 16))
    limit = limit_of("0.35", space, "params")
    budget = Budget.of(0.5, space, at_most=(limit,))
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        shape = draw_shape(space, budget, generator)
        assert budget.holds(macs(space, shape))
        assert params(space, shape) <= 0.35 * params(space, space.full)
