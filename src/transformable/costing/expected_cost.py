"""The expected cost of a space: exact, and differentiable.

The width of every layer and the depth of every stage are independent random choices, so the mask of
a layout is random. Its few possible values are known beforehand; only their probabilities change.
The cost of a layer is a product of two widths. Its mean is the product of their means if the two
depend on no common choice, and else a sum over the values of the common choices.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product

import torch
from torch import Tensor

from ..settings import Metric
from ..shape import Shape
from ..tracing.layouts import Concat, LayerOutput, Placed, Repeated, StageOutput, Union
from ..tracing.reader import Block, Layer, ResidualAdd
from ..tracing.space import Space
from .cost import cost_coefficients, layer_cost
from .latency import Latency
from .possible_masks import PossibleMasks
from .terms import Term, merged

__all__ = ["Expectation", "Probabilities"]

Probabilities = Mapping[str, Tensor]
"""For each layer and each stage the probabilities of its candidates."""


class Expectation:
    """The mean cost over the shapes of a space.

    >>> from transformable import Space, macs, models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> widest = {name: torch.eye(len(sizes))[-1] for name, sizes in space.candidates.items()}
    >>> int(Expectation(space).macs(widest)) == macs(space, space.full)
    True
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        self.masks = PossibleMasks(space)
        self.sums = cache(self._sums)
        self.times = cache(self._times)

    def macs(self, probabilities: Probabilities) -> Tensor:
        """The mean of `tas.macs`."""
        return self._mean(probabilities, "macs")

    def params(self, probabilities: Probabilities) -> Tensor:
        """The mean of `tas.params`."""
        return self._mean(probabilities, "params")

    def latency(self, probabilities: Probabilities, latency: Latency) -> Tensor:
        """The mean of a latency, in nanoseconds."""
        widths = self._widths(probabilities)
        total = torch.zeros((), dtype=torch.float64)
        for term, values in self.times(latency):
            mean = widths.mean_of_pair(term.ins, term.outs, values)
            mean = mean * widths.probability_of_block(term.block)
            if term.original_only:
                mean = mean * widths.probability_of(self.space.full)
            total = total + mean
        return total

    def _times(self, latency: Latency) -> list[tuple[Term, Tensor]]:
        return [(term, torch.from_numpy(term.values)) for term in merged(latency.terms(self.masks))]

    def _widths(self, probabilities: Probabilities) -> "RandomWidths":
        # sums so small that no device is faster, and not every device has 64 bits
        on_cpu = {name: p.cpu().double() for name, p in probabilities.items()}
        return RandomWidths(self.masks, on_cpu)

    def _mean(self, probabilities: Probabilities, metric: Metric) -> Tensor:
        widths = self._widths(probabilities)
        sums = self.sums(metric)
        costs = sums.means(widths)
        if any(sums.original_only):
            always = torch.ones((), dtype=torch.float64)
            original = widths.probability_of(self.space.full)
            costs = costs * torch.stack([original if o else always for o in sums.original_only])
        # everything in one block is kept with the same probability
        kept = {block: widths.probability_of_block(block) for block in dict.fromkeys(sums.blocks)}
        total = costs @ torch.stack([kept[block] for block in sums.blocks])
        for add in self.space.adds:
            if add.shortcut is not None:
                mean = _projection_mean(add, widths, metric)
                total = total + widths.probability_of_block(add.block) * mean
        return total

    def _sums(self, metric: Metric) -> "LayerSums":
        costs = {layer: cost_coefficients(layer, metric) for layer in self.space.layers}
        return LayerSums({layer: cost for layer, cost in costs.items() if any(cost)}, self.masks)


class LayerSums:
    """The mean costs of many layers in a few operations, by their `cost_coefficients`."""

    def __init__(
        self, costs: Mapping[Layer, tuple[int, int, int, int]], masks: PossibleMasks
    ) -> None:
        self.blocks = [layer.block for layer in costs]
        self.original_only = [layer.original_only for layer in costs]
        self.dependent: list[tuple[int, int]] = []
        self.dependent_rows: list[int] = []
        places: dict[int, int] = {}
        """Of the layouts whose means are used, in the order in which they are stacked."""
        rows = []
        for row, (layer, (constant, by_in, by_out, by_both)) in enumerate(costs.items()):
            pair = layer.inputs, layer.outputs
            alone = by_both
            if by_both and (pair[0] == pair[1] or masks.common(pair)):
                self.dependent.append(pair)
                self.dependent_rows.append(row)
                alone = 0
            # a layout that is not used takes the place of any other, with coefficient 0
            ins, outs = (
                places.setdefault(layout, len(places)) if used or alone else 0
                for layout, used in zip(pair, (by_in, by_out), strict=True)
            )
            rows.append((ins, outs, constant, by_in, by_out, alone, by_both))
        self.layouts = list(places)
        table = torch.tensor(rows, dtype=torch.float64).view(-1, 7).t()
        self.inputs, self.outputs = table[:2].long()
        self.constant, self.by_in, self.by_out, self.by_both = table[2:6]
        self.of_dependent = table[6, self.dependent_rows]

    def means(self, widths: "RandomWidths") -> Tensor:
        """The mean cost of each layer."""
        costs: Tensor = self.constant
        if self.layouts:
            means = torch.stack([widths.mean(layout) for layout in self.layouts])
            ins, outs = means[self.inputs], means[self.outputs]
            costs = costs + self.by_in * ins + (self.by_out + self.by_both * ins) * outs
        if self.dependent:
            products = torch.stack([widths.mean_product(*pair) for pair in self.dependent])
            rows = torch.tensor(self.dependent_rows)
            costs = costs.index_add(0, rows, self.of_dependent * products)
        return costs


def _layer_mean(layer: Layer, widths: "RandomWidths", metric: Metric) -> Tensor:
    constant, by_in, by_out, by_both = cost_coefficients(layer, metric)
    total = torch.tensor(float(constant), dtype=torch.float64)
    if by_in:
        total = total + by_in * widths.mean(layer.inputs)
    if by_out:
        total = total + by_out * widths.mean(layer.outputs)
    if by_both:
        total = total + by_both * widths.mean_product(layer.inputs, layer.outputs)
    return total


def _projection_mean(add: ResidualAdd, widths: "RandomWidths", metric: Metric) -> Tensor:
    """The mean cost of a projection, which exists only if the two operands differ."""
    shortcut, outputs = add.projection[0].inputs, add.projection[0].outputs
    always = sum((_layer_mean(layer, widths, metric) for layer in add.projection), torch.zeros(()))

    def cost_if_equal(width: int) -> int:
        return sum(getattr(layer_cost(layer, width, width), metric) for layer in add.projection)

    return always - widths.mean_where_equal(shortcut, outputs, cost_if_equal)


class RandomWidths:
    """The distributions of the widths of layouts, for given probabilities of the choices."""

    def __init__(self, masks: PossibleMasks, probabilities: Probabilities) -> None:
        self.masks = masks
        self.probabilities = probabilities
        self._p: dict[int, Tensor] = {}
        self._means: dict[int, Tensor] = {}

    def mean_over_common(
        self, indexes: Sequence[int], function: Callable[["RandomWidths"], Tensor]
    ) -> Tensor:
        """The mean of a function of layouts that may take them for independent.

        It is evaluated for each value of the choices that the layouts have in common.
        """
        names = self.masks.common(tuple(indexes))
        if not names:
            return function(self)
        terms = []
        for values in product(*(range(len(self.probabilities[name])) for name in names)):
            known = dict(zip(names, values, strict=True))
            weight = torch.stack([self.probabilities[name][i] for name, i in known.items()]).prod()
            one_hot = {
                name: torch.eye(len(self.probabilities[name]), dtype=torch.float64)[i]
                for name, i in known.items()
            }
            given = RandomWidths(self.masks, {**self.probabilities, **one_hot})
            terms.append(weight * function(given))
        return torch.stack(terms).sum(0)

    def p(self, index: int) -> Tensor:
        """The probability of each mask of a layout."""
        if index not in self._p:
            self._p[index] = self._find_p(index)
        return self._p[index]

    def _find_p(self, index: int) -> Tensor:
        match self.masks.layouts[index]:
            case LayerOutput(_, layer):
                return self.probabilities[layer]
            case Placed(_, part):
                return self.p(part)
            case Union(_, parts):
                return self.mean_over_common(parts, lambda widths: widths.independent_union(parts))
            case StageOutput(_, stage, parts):
                total = torch.zeros(len(self.masks.of(index)), dtype=torch.float64)
                for i, depth in enumerate(self.masks.candidates[stage]):
                    indexes = self.masks.indexes(index, parts[depth - 1])
                    p = self.probabilities[stage][i] * self.p(parts[depth - 1])
                    total = total.index_add(0, indexes, p)
                return total
        return torch.ones(1, dtype=torch.float64)

    def independent_union(self, parts: tuple[int, ...]) -> Tensor:
        """The probability of each mask of a union whose parts have no choice in common."""
        masks, p = self.masks.of(parts[0]), self.p(parts[0])
        for part in parts[1:]:
            masks, indexes = self.masks.united(masks, self.masks.of(part))
            pairs = torch.outer(p, self.p(part)).flatten()
            p = torch.zeros(len(masks), dtype=torch.float64).index_add(0, indexes, pairs)
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
            case Repeated(_, part, times):
                return times * self.mean(part)
        return self.p(index) @ self.masks.widths(index)

    def mean_product(self, a: int, b: int) -> Tensor:
        """The mean of the product of two widths."""
        if a == b and not isinstance(self.masks.layouts[a], Concat | Repeated):
            return self.p(a) @ self.masks.widths(a).square()
        return self.mean_over_common((a, b), lambda widths: widths.mean(a) * widths.mean(b))

    def mean_of_pair(self, a: int | None, b: int | None, values: Tensor) -> Tensor:
        """The mean of a value for each pair of masks of two layouts."""
        if a is None or b is None:
            index, row = (b, values[0]) if a is None else (a, values[:, 0])
            return row[0] if index is None else self.p(index) @ row
        if a == b:
            return self.p(a) @ values.diagonal()
        return self.mean_over_common((a, b), lambda widths: widths.p(a) @ values @ widths.p(b))

    def mean_where_equal(self, a: int, b: int, value: Callable[[int], int]) -> Tensor:
        """The mean of a function of the width that counts as 0 where two layouts differ."""
        ones, twos = self.masks.of(a), self.masks.of(b)
        both = [mask for mask in ones if mask in twos]
        in_a, in_b = ([masks.index(mask) for mask in both] for masks in (ones, twos))
        values = torch.tensor([float(value(m.bit_count())) for m in both], dtype=torch.float64)
        return self.mean_over_common(
            (a, b), lambda widths: (widths.p(a)[in_a] * widths.p(b)[in_b] * values).sum()
        )

    def probability_of(self, shape: Shape) -> Tensor:
        """The probability of a shape."""
        p = torch.ones((), dtype=torch.float64)
        for name, size in {**shape.widths, **shape.depths}.items():
            sizes = self.masks.candidates[name]
            p = p * (self.probabilities[name][sizes.index(size)] if size in sizes else 0)
        return p

    def probability_of_block(self, block: Block) -> Tensor:
        """The probability that a block is kept."""
        if block is None:
            return torch.ones((), dtype=torch.float64)
        stage, index = block
        # depths are in ascending order, so those that keep the block are the last ones
        first = sum(depth <= index for depth in self.masks.candidates[stage])
        return self.probabilities[stage][first:].sum()
