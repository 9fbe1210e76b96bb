"""From the importance of channels to a shape inside the budget."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from torch import Tensor

from ..costing.budget import Budget
from ..shape import Shape
from ..tracing.channel_groups import Channel, ChannelGroups
from ..tracing.space import Space

__all__ = ["Scores", "by_rank", "by_ratio", "loosened", "same_ratio", "strongest"]

Scores = Mapping[str, Tensor]
"""How important each channel of each group is."""

STEPS = 1000
State = TypeVar("State")
Step = TypeVar("Step")


def strongest(groups: ChannelGroups, scores: Scores, widths: Mapping[str, int]) -> Shape:
    """The most important channels of each group, so many as its width says."""
    kept = {
        head: scores[head].argsort(descending=True, stable=True)[:width].tolist()
        for head, width in widths.items()
    }
    return groups.shape(kept)


def by_ratio(groups: ChannelGroups, budget: Budget, scores: Scores) -> Shape:
    """The same share of every layer's channels, so that the budget holds.

    >>> from transformable import Space, models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> groups, budget = ChannelGroups(space), Budget.of(0.5, space)
    >>> import torch
    >>> falling = {head: -torch.arange(size).float() for head, size in groups.sizes.items()}
    >>> shape = by_ratio(groups, budget, falling)
    >>> shape.channels["stem.0"], shape.widths["stages.2.0.conv1"]
    ((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), 46)
    """

    shape = _one_ratio(
        groups.space, budget, groups.sizes, lambda widths: strongest(groups, scores, widths)
    )
    return loosened(groups, budget, scores, shape)


def same_ratio(
    space: Space,
    budget: Budget,
    sizes: Mapping[str, int],
    shape_of: Callable[[Mapping[str, int]], Shape],
    largest: float = 1.0,
) -> Shape:
    """The shape of the widths that are one share of the sizes, with which the budget holds."""
    return _checked(space, budget, _one_ratio(space, budget, sizes, shape_of, largest))


def _one_ratio(
    space: Space,
    budget: Budget,
    sizes: Mapping[str, int],
    shape_of: Callable[[Mapping[str, int]], Shape],
    largest: float = 1.0,
) -> Shape:
    """In the band, or above it where one step leaps over it."""

    def widths(step: int) -> dict[str, int]:
        share = largest * step / STEPS
        return {name: max(1, round(size * share)) for name, size in sizes.items()}

    step = _nearest(space, budget, lambda step: shape_of(widths(step)), STEPS)
    shape = shape_of(widths(step))
    if budget.holds(budget.cost(space, shape)):
        return shape
    # layers of one width step all at once: from too wide, let them step one after the other
    if budget.cost(space, shape) < budget.low:
        step = min(step + 1, STEPS)
    wide = widths(step)

    def narrower(name: str, wide: dict[str, int]) -> dict[str, int]:
        return {**wide, name: max(1, wide[name] - 1)}

    return _settled(space, budget, wide, list(sizes), narrower, shape_of)


def by_rank(groups: ChannelGroups, budget: Budget, scores: Scores) -> Shape:
    """Of all channels of the network the least important ones go, until the budget holds.

    Each group keeps its most important channel.
    """
    channels = [
        (float(score), head, i)
        for head, values in scores.items()
        for i, score in enumerate(values)
        if i != int(values.argmax())
    ]
    rank = [(head, i) for _, head, i in sorted(channels, reverse=True)]

    def kept(count: int) -> dict[str, list[int]]:
        found = {head: [int(scores[head].argmax())] for head in groups.sizes}
        for head, i in rank[:count]:
            found[head].append(i)
        return found

    count = _nearest(groups.space, budget, lambda n: groups.shape(kept(n)), len(rank))
    shape = groups.shape(kept(count))
    cost = budget.cost(groups.space, shape)
    if budget.holds(cost):
        return shape
    # one channel can cost more than the band is wide: some stay that are less important
    count += cost < budget.low

    def without(channel: Channel, kept: dict[str, list[int]]) -> dict[str, list[int]]:
        head, i = channel
        return {**kept, head: [n for n in kept[head] if n != i]}

    order = rank[:count][::-1]
    shape = _settled(groups.space, budget, kept(count), order, without, groups.shape)
    return loosened(groups, budget, scores, shape)


def loosened(groups: ChannelGroups, budget: Budget, scores: Scores, shape: Shape) -> Shape:
    """Into the band also where one channel of a whole group is more than it.

    Single layers then lose a channel that the others of their group keep.
    """
    for name, head in groups.group_of.items():
        if budget.holds(budget.cost(groups.space, shape)):
            break
        channels = shape.channels[name]
        weakest = min(channels, key=lambda i: float(scores[head][i]))
        left = tuple(i for i in channels if i != weakest)
        if left:
            widths, picked = {**shape.widths, name: len(left)}, {**shape.channels, name: left}
            narrower = Shape(widths, shape.depths, picked)
            cost = budget.cost(groups.space, narrower)
            # a projection that becomes necessary can cost more than the channel did
            if budget.low <= cost < budget.cost(groups.space, shape):
                shape = narrower
    return _checked(groups.space, budget, shape)


def _settled(
    space: Space,
    budget: Budget,
    start: State,
    order: Sequence[Step],
    smaller: Callable[[Step, State], State],
    shape_of: Callable[[State], Shape],
) -> Shape:
    """From above the band into it, or as near as the first steps that do not leap over it lead."""
    for step in order:
        if budget.holds(budget.cost(space, shape_of(start))):
            break
        following = smaller(step, start)
        if budget.cost(space, shape_of(following)) >= budget.low:
            start = following
    return shape_of(start)


def _checked(space: Space, budget: Budget, shape: Shape) -> Shape:
    cost = budget.cost(space, shape)
    if not budget.holds(cost):
        raise ValueError(
            f"no such shape has {budget.low:,} to {budget.high:,} {budget.metric}, one has "
            f"{cost:,}; use a larger tolerance"
        )
    return shape


def _nearest(space: Space, budget: Budget, shape: Callable[[int], Shape], last: int) -> int:
    """The number, up to the last, whose shape costs nearest to the target; they cost ever more."""

    def cost(number: int) -> int:
        return budget.cost(space, shape(number))

    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        (low, high) = (middle, high) if cost(middle) <= budget.value else (low, middle)
    return min((low, high), key=lambda number: abs(cost(number) - budget.value))
