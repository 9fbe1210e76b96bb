"""The most probable shape inside a band, as a mixed-integer program.

Each choice is a set of 0-1 variables of which one is 1, and so is each layout over the masks that
it can be. Variables for pairs (what goes in, what comes out) have these as their sums. Wherever the
choices are 0 or 1 a pair is bound to be their product, so the cost, which is linear in pairs, is
exact; and without the band the relaxation of a network that is a chain is tight.
"""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ..costing.budget import Budget
from ..costing.cost import layer_cost
from ..costing.expected_cost import Masks, coefficients
from ..tracing import Concat, Join, Last, Layer, Own, Place, Repeat, Union
from ..tracing.space import Space

__all__ = ["most_probable"]

Columns = NDArray[np.int64]

# the share of the objective that may be left lying, for an answer in seconds
GAP = 1e-4
NODES = 20_000
METRICS = {"macs": 0, "params": 1}
# the solver's own tolerance lets a cost pass the edge of the band by about this share
SLACK = 1e-5


def most_probable(
    logs: Mapping[str, NDArray[np.float64]], space: Space, budget: Budget
) -> dict[str, int] | None:
    """The candidate of each choice, by its place; None if no shape is inside the band."""
    program = Program(space, METRICS[budget.metric])
    found = program.solve(logs, budget.low, budget.high)
    if found is not None and not budget.holds(budget.cost(space, space.at(found))):
        edge = SLACK * budget.high
        found = program.solve(logs, budget.low + edge, budget.high - edge)
    if found is not None and not budget.holds(budget.cost(space, space.at(found))):
        return None
    return found


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The solver writes to the standard output of the process now and then; send that to stderr."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


class Program:
    """Variables and constraints of a space."""

    def __init__(self, space: Space, which: int) -> None:
        self.space, self.which = space, which
        self.masks = Masks(space)
        self.count = 0
        self.rows: list[tuple[list[tuple[Columns, float]], float, float]] = []
        self.costs: list[tuple[Columns, NDArray[np.float64]]] = []
        self.constant = 0.0
        self.layout = cache(self._layout)
        self.choices = {name: self._one_of(len(c)) for name, c in self.masks.candidates.items()}
        self.integers = self.count
        for layer in space.layers:
            if layer.derived:
                self._pay_layer(layer)
        for join in space.joins:
            if join.shortcut is not None:
                self._pay_join(join)

    def solve(
        self, logs: Mapping[str, NDArray[np.float64]], low: float, high: float
    ) -> dict[str, int] | None:
        gain = np.zeros(self.count)
        for name, columns in self.choices.items():
            gain[columns] = logs[name]
        with _quiet():
            found = milp(
                -gain,
                integrality=np.arange(self.count) < self.integers,
                bounds=Bounds(0, 1),
                constraints=[self._constraints(), self._band(low, high)],
                options={"mip_rel_gap": GAP, "node_limit": NODES},
            )
        if found.x is None:
            return None
        return {name: int(found.x[columns].argmax()) for name, columns in self.choices.items()}

    def _new(self, *size: int) -> Columns:
        first = self.count
        self.count += int(np.prod(size))
        return np.arange(first, self.count).reshape(size)

    def _one_of(self, size: int) -> Columns:
        columns = self._new(size)
        self._bind([(columns, 1)], 1, 1)
        return columns

    def _bind(self, terms: list[tuple[Columns, float]], low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def _layout(self, index: int) -> Columns:
        """A variable for each mask that a layout can be."""
        match self.masks.layouts[index]:
            case Own(_, layer):
                return self.choices[layer]
            case Place(_, part):
                return self.layout(part)
            case Union(_, parts):
                return self._union(parts)
            case Last(_, stage, parts):
                return self._last(index, stage, parts)
        return self._one_of(1)

    def _union(self, parts: Sequence[int]) -> Columns:
        columns, masks = self.layout(parts[0]), self.masks.of(parts[0])
        for part in parts[1:]:
            pairs = self._pairs(columns, self.layout(part), None).ravel()
            masks, where = self.masks.united(masks, self.masks.of(part))
            columns = self._new(len(masks))
            for i, column in enumerate(columns):
                self._bind([(column, -1), (pairs[where.numpy() == i], 1)], 0, 0)
        return columns

    def _last(self, index: int, stage: str, parts: Sequence[int]) -> Columns:
        columns = self._new(len(self.masks.of(index)))
        sources: list[list[int]] = [[] for _ in columns]
        for chosen, depth in zip(self.choices[stage], self.masks.candidates[stage], strict=True):
            part = parts[depth - 1]
            gated = self._gated(self.layout(part), chosen[None])
            for column, place in zip(gated, self.masks.where(index, part).tolist(), strict=True):
                sources[place].append(int(column))
        for column, found in zip(columns, sources, strict=True):
            self._bind([(column, -1), (np.array(found), 1)], 0, 0)
        return columns

    def _gated(self, columns: Columns, gate: Columns | None) -> Columns:
        """The variables times the gate, a set of which at most one is 1."""
        if gate is None:
            return columns
        gated = self._new(len(columns))
        self._bind([(gated, 1), (gate, -1)], 0, 0)
        for own, column in zip(gated, columns, strict=True):
            self._bind([(own, 1), (column, -1)], -1, 0)
        return gated

    def _pairs(self, a: Columns, b: Columns, gate: Columns | None) -> Columns:
        """The products of two sets of variables, times the gate."""
        pairs = self._new(len(a), len(b))
        least = 0 if gate is None else -1
        for row, column in (*zip(pairs, a, strict=True), *zip(pairs.T, b, strict=True)):
            self._bind([(row, 1), (column, -1)], least, 0)
        if gate is not None:
            self._bind([(pairs.ravel(), 1), (gate, -1)], 0, 0)
        return pairs

    def _gate(self, part: Layer | Join) -> Columns | None:
        """The depths at which a layer is there."""
        if part.block is None:
            return None
        stage, number = part.block
        there = [depth > number for depth in self.masks.candidates[stage]]
        gate: Columns = self.choices[stage][np.array(there)]
        return gate

    def _pieces(self, index: int) -> list[tuple[Columns, NDArray[np.float64]]]:
        """Sets of variables, each with the widths that it adds to that of a layout."""
        match self.masks.layouts[index]:
            case Concat(_, parts):
                return [piece for part in parts for piece in self._pieces(part)]
            case Repeat(_, part, times):
                return [(columns, times * widths) for columns, widths in self._pieces(part)]
        return [(self.layout(index), self._widths(index))]

    def _widths(self, index: int) -> NDArray[np.float64]:
        return np.array([float(mask.bit_count()) for mask in self.masks.of(index)])

    def _pay_layer(self, layer: Layer) -> None:
        always, by_in, by_out, by_both = coefficients(layer, self.which)
        gate = self._gate(layer)
        if gate is None:
            self.constant += always
        elif always:
            self._pay(gate, np.full(len(gate), float(always)))
        for each, index in ((by_in, layer.inputs), (by_out, layer.outputs)):
            if each:
                for columns, widths in self._pieces(index):
                    self._pay(self._gated(columns, gate), each * widths)
        if by_both:
            for a, ins in self._pieces(layer.inputs):
                for b, outs in self._pieces(layer.outputs):
                    self._pay(self._pairs(a, b, gate), by_both * np.outer(ins, outs))

    def _pay_join(self, join: Join) -> None:
        """A projection, where the two sides differ."""
        shortcut, outputs = join.projection[0].inputs, join.projection[0].outputs
        sides = self.masks.of(shortcut), self.masks.of(outputs)
        costs = [
            [
                sum(
                    layer_cost(layer, a.bit_count(), b.bit_count())[self.which]
                    for layer in join.projection
                )
                * float(a != b)
                for b in sides[1]
            ]
            for a in sides[0]
        ]
        pairs = self._pairs(self.layout(shortcut), self.layout(outputs), self._gate(join))
        self._pay(pairs, np.array(costs))

    def _pay(self, columns: Columns, costs: NDArray[np.float64]) -> None:
        self.costs.append((columns.ravel(), costs.ravel()))

    def _constraints(self) -> LinearConstraint:
        values, rows, columns = [], [], []
        for i, (terms, _, _) in enumerate(self.rows):
            for where, factor in terms:
                where = np.atleast_1d(where)
                columns.append(where)
                rows.append(np.full(len(where), i))
                values.append(np.full(len(where), factor))
        table = coo_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(len(self.rows), self.count),
        )
        low, high = (np.array([row[side] for row in self.rows]) for side in (1, 2))
        return LinearConstraint(table.tocsr(), low, high)

    def _band(self, low: float, high: float) -> LinearConstraint:
        prices = np.zeros(self.count)
        for columns, costs in self.costs:
            np.add.at(prices, columns, costs)
        # in units of the band, whatever the network is measured in
        low, high = low - self.constant, high - self.constant
        return LinearConstraint(prices[None] / high, low / high, 1)
