"""From the importance of channels to a shape inside the budget."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from torch import Tensor

from ..costing.budget import BandError, Budget, describe_cost
from ..shape import Shape
from ..tracing.channel_groups import Channel, ChannelGroups
from ..tracing.space import Space

__all__ = [
    "Scores",
    "Widths",
    "check_budget",
    "drop_single_channels",
    "keep_by_rank",
    "keep_by_ratio",
    "most_important",
    "same_ratio",
]

Scores = Mapping[str, Tensor]  # the importance of each channel, by group
Widths = Mapping[str, int]  # by group, or by layer
Kept = dict[str, list[int]]  # the channels to keep, by group
Selection = TypeVar("Selection")

RATIOS = 1000  # ratios that are tried, at equal distances


def most_important(groups: ChannelGroups, scores: Scores, widths: Widths) -> Shape:
    """The shape that keeps the most important channels of each group, as many as its width."""
    kept = {
        head: scores[head].argsort(descending=True, stable=True)[:width].tolist()
        for head, width in widths.items()
    }
    return groups.shape(kept)


def keep_by_ratio(groups: ChannelGroups, budget: Budget, scores: Scores) -> Shape:
    """Keep the same share of every layer's channels, solved for the budget."""
    shape = same_ratio(groups.space, budget, groups.sizes, partial(most_important, groups, scores))
    return drop_single_channels(groups, budget, scores, shape)


def same_ratio(
    space: Space,
    budget: Budget,
    sizes: Widths,
    shape_of: Callable[[Widths], Shape],
    largest: float = 1.0,
) -> Shape:
    """The shape whose widths are one share of the sizes, up to ``largest``, solved for the budget.

    If the band is narrow, its cost can be above it.
    """

    def widths(step: int) -> dict[str, int]:
        share = largest * step / RATIOS
        return {name: max(1, round(size * share)) for name, size in sizes.items()}

    def narrower(name: str, widths: dict[str, int]) -> dict[str, int]:
        return {**widths, name: max(1, widths[name] - 1)}

    # layers of one size all change at the same ratio: narrowing single ones fills the gaps
    reductions = [partial(narrower, name) for name in sizes]
    return _solve(space, budget, shape_of, widths, RATIOS, lambda _: reductions)


def keep_by_rank(groups: ChannelGroups, budget: Budget, scores: Scores) -> Shape:
    """Drop the least important channels of the whole network until the budget holds; each group
    keeps its most important one."""
    channels = [
        (float(score), head, i)
        for head, values in scores.items()
        for i, score in enumerate(values)
        if i != int(values.argmax())
    ]
    ranking = [(head, i) for _, head, i in sorted(channels, reverse=True)]

    def first(count: int) -> Kept:
        kept = {head: [int(scores[head].argmax())] for head in groups.sizes}
        for head, i in ranking[:count]:
            kept[head].append(i)
        return kept

    def without(channel: Channel, kept: Kept) -> Kept:
        head, i = channel
        return {**kept, head: [n for n in kept[head] if n != i]}

    def reductions(count: int) -> list[Callable[[Kept], Kept]]:
        # one channel can cost more than the band is wide: some less important ones stay then
        return [partial(without, channel) for channel in ranking[:count][::-1]]

    shape = _solve(groups.space, budget, groups.shape, first, len(ranking), reductions)
    return drop_single_channels(groups, budget, scores, shape)


def drop_single_channels(
    groups: ChannelGroups, budget: Budget, scores: Scores, shape: Shape
) -> Shape:
    """Bring a shape into a band that is narrower than the cost of one channel of a group, by
    dropping channels of single layers."""
    for name, head in groups.group_of.items():
        if budget.holds(budget.cost(groups.space, shape)):
            break
        blocks = {channel // groups.units[head] for channel in shape.channels[name]}
        weakest = min(blocks, key=lambda i: float(scores[head][i]))
        if left := groups.expand(name, blocks - {weakest}):
            widths, picked = {**shape.widths, name: len(left)}, {**shape.channels, name: left}
            narrower = Shape(widths, shape.depths, picked)
            cost = budget.cost(groups.space, narrower)
            # a projection that becomes necessary can cost more than the channel did
            if budget.low <= cost < budget.cost(groups.space, shape):
                shape = narrower
    check_budget(groups.space, budget, shape)
    return shape


def check_budget(space: Space, budget: Budget, shape: Shape) -> None:
    """Raise an error if the cost of the shape is outside the band."""
    cost = budget.cost(space, shape)
    if not budget.holds(cost):
        raise BandError(
            f"this method reaches no shape that costs {budget.band}; the nearest costs "
            f"{describe_cost(budget.metric, cost)}; use a larger tolerance"
        )


def _solve(
    space: Space,
    budget: Budget,
    shape_of: Callable[[Selection], Shape],
    selection: Callable[[int], Selection],
    last: int,
    reductions: Callable[[int], Iterable[Callable[[Selection], Selection]]],
) -> Shape:
    """The shape of a selection inside the band, or above it and as near as the reductions lead.

    Selections from 0 to ``last`` cost more and more. If the one nearest to the target is outside
    the band, reductions of the first one above it are applied, but for those that jump below.
    """

    def cost(selected: Selection) -> int:
        return budget.cost(space, shape_of(selected))

    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        (low, high) = (middle, high) if cost(selection(middle)) <= budget.value else (low, middle)
    nearest = min((low, high), key=lambda number: abs(cost(selection(number)) - budget.value))
    if cost(selection(nearest)) < budget.low:
        nearest = min(nearest + 1, last)
    found = selection(nearest)
    for reduce in reductions(nearest):
        if budget.holds(cost(found)):
            break
        reduced = reduce(found)
        if cost(reduced) >= budget.low:
            found = reduced
    return shape_of(found)
