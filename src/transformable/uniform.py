"""The plain way to make a network smaller: the same ratio in every layer, all blocks kept."""

from .budget import Budget
from .shape import Shape
from .space import Space

__all__ = ["uniform"]

STEPS = 1000


def uniform(space: Space, budget: Budget) -> Shape:
    """Of all ratios the one whose cost is nearest to the target.

    Widths are rounded to whole channels, not to the candidates of the space.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> half = uniform(space, Budget.of(0.5, space))
    >>> half.widths["stem.0"], half.widths["stages.2.0.conv1"]
    (11, 46)
    """
    top = max(
        sizes[-1] / full
        for sizes, full in zip(space.widths.values(), space.full.widths.values(), strict=True)
    )
    shapes = {_scaled(space, top * step / STEPS): None for step in range(1, STEPS + 1)}
    return min(shapes, key=lambda shape: abs(budget.cost(space, shape) - budget.value))


def _scaled(space: Space, ratio: float) -> Shape:
    widths = {name: max(1, round(ratio * width)) for name, width in space.full.widths.items()}
    return space.full.replace(widths=widths)
