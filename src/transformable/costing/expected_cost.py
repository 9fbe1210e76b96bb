"""The expected cost of a space: exact, and differentiable.

The width of every layer and the depth of every stage are independent random choices, so a layout is
a random mask. The few masks that it can be are known beforehand; only their probabilities change.
What a layer costs is a product of two widths: its mean is the product of their means where the two
have no choice in common, and else a sum over the values of the common choices.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from itertools import product

import torch
from torch import Tensor

from ..tracing import Block, Concat, Fixed, Join, Last, Layer, Own, Place, Repeat, Union, placed
from ..tracing.space import Space
from .cost import layer_cost

__all__ = ["Chances", "Expectation", "Masks", "coefficients"]

Chances = Mapping[str, Tensor]
"""For each layer and each stage the probabilities of its candidates."""


class Expectation:
    """The mean cost over the shapes of a space.

    >>> from transformable import Space, macs, models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> candidates = {**space.widths, **space.depths}
    >>> widest = {name: torch.eye(len(sizes))[-1] for name, sizes in candidates.items()}
    >>> int(Expectation(space).macs(widest)) == macs(space, space.full)
    True
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.masks = Masks(space)

    def macs(self, chances: Chances) -> Tensor:
        """The mean of `tas.macs`."""
        return self._mean(chances, 0)

    def params(self, chances: Chances) -> Tensor:
        """The mean of `tas.params`."""
        return self._mean(chances, 1)

    def _mean(self, chances: Chances, which: int) -> Tensor:
        # small sums, which no device does faster and not every one in 64 bits
        widths = Widths(self.masks, {name: p.cpu().double() for name, p in chances.items()})
        # what stands in one block is there with one probability
        blocks: dict[Block, list[Tensor]] = {}
        for layer in self.space.layers:
            if not any(coefficients(layer, which)):
                continue
            mean = _layer_mean(layer, widths, which)
            if not layer.derived:
                mean = mean * widths.probability_of_full(self.space)
            blocks.setdefault(layer.block, []).append(mean)
        for join in self.space.joins:
            if join.shortcut is not None:
                blocks.setdefault(join.block, []).append(_join_mean(join, widths, which))
        total = torch.zeros((), dtype=torch.float64)
        for block, means in blocks.items():
            total = total + self._presence(block, widths) * torch.stack(means).sum()
        return total

    def _presence(self, block: Block, widths: "Widths") -> Tensor | float:
        """The probability that a block is there."""
        if block is None:
            return 1.0
        stage, number = block
        # candidates are in order, so those that keep it are the last ones
        first = sum(depth <= number for depth in self.space.depths[stage])
        return widths.chances[stage][first:].sum()


@lru_cache(maxsize=10_000)
def coefficients(layer: Layer, which: int) -> tuple[int, int, int, int]:
    """Costs are a + b in + c out + d in out: four of them say which."""
    costs = [[layer_cost(layer, c_in, c_out)[which] for c_out in (0, 1)] for c_in in (0, 1)]
    a, b, c = costs[0][0], costs[1][0] - costs[0][0], costs[0][1] - costs[0][0]
    return a, b, c, costs[1][1] - a - b - c


def _layer_mean(layer: Layer, widths: "Widths", which: int) -> Tensor:
    a, b, c, d = coefficients(layer, which)
    total = torch.tensor(float(a), dtype=torch.float64)
    if b:
        total = total + b * widths.mean(layer.inputs)
    if c:
        total = total + c * widths.mean(layer.outputs)
    if d:
        total = total + d * widths.mean_product(layer.inputs, layer.outputs)
    return total


def _join_mean(join: Join, widths: "Widths", which: int) -> Tensor:
    """The projection is there only if the two sides differ."""
    shortcut, outputs = join.projection[0].inputs, join.projection[0].outputs
    full = sum((_layer_mean(layer, widths, which) for layer in join.projection), torch.zeros(()))

    def cost_if_equal(width: int) -> int:
        return sum(layer_cost(layer, width, width)[which] for layer in join.projection)

    return full - widths.mean_where_equal(shortcut, outputs, cost_if_equal)


class Masks:
    """What each layout of a space can be, whatever the probabilities."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.layouts = space.layouts
        self.candidates = {**space.widths, **space.depths}
        self.choices = cache(self._choices)
        self.of = cache(self._of)
        self.united = cache(self._united)
        self.where = cache(self._where)
        self.counts = cache(self._counts)

    def _choices(self, index: int) -> frozenset[str]:
        """The layers and stages that decide on a layout."""
        match self.layouts[index]:
            case Own(_, layer):
                return frozenset({layer})
            case Place(_, part) | Repeat(_, part):
                return self.choices(part)
            case Union(_, parts) | Concat(_, parts):
                return frozenset().union(*map(self.choices, parts))
            case Last(_, stage, parts):
                return frozenset({stage}).union(*map(self.choices, parts))
        return frozenset()

    def common(self, indexes: Iterable[int]) -> list[str]:
        """The choices that more than one of these layouts depend on."""
        counts = Counter(name for index in indexes for name in self.choices(index))
        return sorted(name for name, count in counts.items() if count > 1)

    def _of(self, index: int) -> tuple[int, ...]:
        """The masks that a layout can be; not asked of concatenations, of which there are many."""
        match self.layouts[index]:
            case Fixed(size):
                return ((1 << size) - 1,)
            case Own(_, layer):
                return tuple((1 << width) - 1 for width in self.candidates[layer])
            case Place() as place:
                return tuple(placed(place, mask) for mask in self.of(place.part))
            case Union(_, parts):
                masks = self.of(parts[0])
                for part in parts[1:]:
                    masks = self.united(masks, self.of(part))[0]
                return masks
            case Last(_, stage, parts):
                kept = [parts[depth - 1] for depth in self.candidates[stage]]
                return tuple(dict.fromkeys(mask for part in kept for mask in self.of(part)))
        raise ValueError(
            f"the widths of {', '.join(sorted(self.choices(index)))} make too many combinations "
            "to search; use fewer ratios"
        )

    def _united(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], Tensor]:
        """The masks that a union can be, and which of them each pair makes."""
        unions = [x | y for x in a for y in b]
        masks = tuple(dict.fromkeys(unions))
        place = {mask: i for i, mask in enumerate(masks)}
        return masks, torch.tensor([place[mask] for mask in unions])

    def _counts(self, index: int) -> Tensor:
        """How many channels each mask of a layout has."""
        counts = [mask.bit_count() for mask in self.of(index)]
        return torch.tensor(counts, dtype=torch.float64)

    def _where(self, index: int, part: int) -> Tensor:
        """Where the masks of a part are among those of a layout."""
        place = {mask: i for i, mask in enumerate(self.of(index))}
        return torch.tensor([place[mask] for mask in self.of(part)])


def _sure(index: int, count: int) -> Tensor:
    return torch.eye(count, dtype=torch.float64)[index]


class Widths:
    """The random widths of the layouts, for given probabilities of the choices."""

    def __init__(self, masks: Masks, chances: Chances) -> None:
        self.masks = masks
        self.chances = chances
        self._p: dict[int, Tensor] = {}
        self._means: dict[int, Tensor] = {}

    def given(self, names: list[str], function: Callable[["Widths"], Tensor]) -> Tensor:
        """The mean of what the function gives when these choices are known."""
        terms = []
        for values in product(*(range(len(self.chances[name])) for name in names)):
            known = dict(zip(names, values, strict=True))
            weight = torch.stack([self.chances[name][i] for name, i in known.items()]).prod()
            sure = {name: _sure(i, len(self.chances[name])) for name, i in known.items()}
            terms.append(weight * function(Widths(self.masks, {**self.chances, **sure})))
        return torch.stack(terms).sum(0)

    def p(self, index: int) -> Tensor:
        """The probability of each mask of a layout."""
        if index not in self._p:
            self._p[index] = self._find_p(index)
        return self._p[index]

    def _find_p(self, index: int) -> Tensor:
        match self.masks.layouts[index]:
            case Own(_, layer):
                return self.chances[layer]
            case Place(_, part):
                return self.p(part)
            case Union(_, parts):
                common = self.masks.common(parts)
                if common:
                    return self.given(common, lambda widths: widths.union(parts))
                return self.union(parts)
            case Last(_, stage, parts):
                total = torch.zeros(len(self.masks.of(index)), dtype=torch.float64)
                for i, depth in enumerate(self.masks.candidates[stage]):
                    where = self.masks.where(index, parts[depth - 1])
                    chance = self.chances[stage][i] * self.p(parts[depth - 1])
                    total = total.index_add(0, where, chance)
                return total
        return torch.ones(1, dtype=torch.float64)

    def union(self, parts: tuple[int, ...]) -> Tensor:
        """Of parts that have no choice in common."""
        masks, p = self.masks.of(parts[0]), self.p(parts[0])
        for part in parts[1:]:
            masks, where = self.masks.united(masks, self.masks.of(part))
            pairs = torch.outer(p, self.p(part)).flatten()
            p = torch.zeros(len(masks), dtype=torch.float64).index_add(0, where, pairs)
        return p

    def mean(self, index: int) -> Tensor:
        """The mean width of a layout."""
        if index not in self._means:
            self._means[index] = self._find_mean(index)
        return self._means[index]

    def _find_mean(self, index: int) -> Tensor:
        match self.masks.layouts[index]:
            case Concat(_, parts):
                return torch.stack([self.mean(part) for part in parts]).sum()
            case Repeat(_, part, times):
                return times * self.mean(part)
        return self.p(index) @ self.masks.counts(index)

    def mean_product(self, a: int, b: int) -> Tensor:
        """The mean of the product of two widths."""
        if a == b and not isinstance(self.masks.layouts[a], Concat | Repeat):
            return self.p(a) @ self.masks.counts(a).square()
        common = self.masks.common((a, b))
        if common:
            return self.given(common, lambda widths: widths.mean(a) * widths.mean(b))
        return self.mean(a) * self.mean(b)

    def mean_where_equal(self, a: int, b: int, value: Callable[[int], int]) -> Tensor:
        """The mean of a function of the width where two layouts are the same, of 0 elsewhere."""
        common = self.masks.common((a, b))
        if common:
            return self.given(common, lambda widths: widths.independent_equal(a, b, value))
        return self.independent_equal(a, b, value)

    def independent_equal(self, a: int, b: int, value: Callable[[int], int]) -> Tensor:
        """The same for layouts that have no choice in common."""
        ones, twos = self.masks.of(a), self.masks.of(b)
        both = [mask for mask in ones if mask in twos]
        p, q = self.p(a), self.p(b)
        values = torch.tensor([float(value(mask.bit_count())) for mask in both], dtype=p.dtype)
        in_a, in_b = ([masks.index(mask) for mask in both] for masks in (ones, twos))
        return (p[in_a] * q[in_b] * values).sum()

    def probability_of_full(self, space: Space) -> Tensor:
        """That nothing is changed at all."""
        full = {**space.full.widths, **space.full.depths}
        chance = torch.ones((), dtype=torch.float64)
        for name, size in full.items():
            sizes = self.masks.candidates[name]
            chance = chance * (self.chances[name][sizes.index(size)] if size in sizes else 0)
        return chance
