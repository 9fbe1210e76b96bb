"""The most probable shape inside a band, as a mixed-integer program.

Each choice is a set of 0-1 variables of which one is 1, and so is each layout over its possible
masks. The variables for pairs of masks (input, output of a layer) sum to these. Where the choices
are 0 or 1, a pair is the product of its two masks, so the cost, which is linear in pairs, is exact.
Without the band, the linear relaxation is tight for a network that is a chain.
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

from ..costing.budget import BandError, Budget
from ..costing.cost import cost_coefficients, layer_cost
from ..costing.possible_masks import PossibleMasks
from ..settings import Metric
from ..tracing.layouts import Concat, LayerOutput, Placed, Repeated, StageOutput, Union
from ..tracing.reader import Layer, ResidualAdd
from ..tracing.space import Space

__all__ = ["most_probable"]

Columns = NDArray[np.int64]  # indexes of variables

GAP = 1e-4  # the relative gap at which the solver stops
NODES = 20_000  # the number of nodes of the search tree at which the solver gives up
SLACK = 1e-5  # the relative amount by which the solver's tolerance may let a cost leave the band
INFEASIBLE = 2  # the status of such a program in scipy.optimize.milp


def most_probable(
    logs: Mapping[str, NDArray[np.float64]], space: Space, budget: Budget
) -> dict[str, int]:
    """The candidate (its index) of each choice, for log-probabilities of all candidates; raises a
    ValueError if no shape inside the band is found."""
    program = IntegerProgram(space, budget.metric)
    slack = SLACK * budget.high
    for low, high in ((budget.low, budget.high), (budget.low + slack, budget.high - slack)):
        found = program.solve(logs, low, high)
        if found is None:
            break
        if budget.holds(budget.cost(space, space.shape_at(found))):
            return found
    raise BandError(
        f"no shape of this network has {budget.low:,} to {budget.high:,} {budget.metric}; "
        "use a larger tolerance or more candidates"
    )


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect what the solver writes to the standard output of the process."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


class IntegerProgram:
    """The variables and constraints of a space, and its cost in one metric."""

    def __init__(self, space: Space, metric: Metric) -> None:
        self.metric = metric
        self.masks = PossibleMasks(space)
        self.count = 0
        self.rows: list[tuple[list[tuple[Columns, float]], float, float]] = []
        self.costs: list[tuple[Columns, NDArray[np.float64]]] = []
        self.constant = 0.0
        self.layout = cache(self._layout)
        self.choices = {name: self._one_of(len(c)) for name, c in self.masks.candidates.items()}
        self.integers = self.count
        for layer in space.layers:
            if not layer.original_only:
                self._add_layer_cost(layer)
        for add in space.adds:
            if add.shortcut is not None:
                self._add_projection_cost(add)

    def solve(
        self, logs: Mapping[str, NDArray[np.float64]], low: float, high: float
    ) -> dict[str, int] | None:
        """The most probable candidates that cost `low` to `high`; None if none do."""
        objective = np.zeros(self.count)
        for name, columns in self.choices.items():
            objective[columns] = logs[name]
        with _stdout_to_stderr():
            found = milp(
                -objective,
                integrality=np.arange(self.count) < self.integers,
                bounds=Bounds(0, 1),
                constraints=[self._constraints(), self._band(low, high)],
                options={"mip_rel_gap": GAP, "node_limit": NODES},
            )
        if found.x is None and found.status != INFEASIBLE:
            raise BandError(
                f"the solver gave up after {NODES:,} nodes without a shape that has {low:,.0f} to "
                f"{high:,.0f} {self.metric}; use a larger tolerance or fewer candidates"
            )
        if found.x is None:
            return None
        return {name: int(found.x[columns].argmax()) for name, columns in self.choices.items()}

    def _new(self, *size: int) -> Columns:
        """New variables."""
        first = self.count
        self.count += int(np.prod(size))
        return np.arange(first, self.count).reshape(size)

    def _one_of(self, size: int) -> Columns:
        """New variables of which one is 1."""
        columns = self._new(size)
        self._add_constraint([(columns, 1)], 1, 1)
        return columns

    def _add_constraint(self, terms: list[tuple[Columns, float]], low: float, high: float) -> None:
        self.rows.append((terms, low, high))

    def _layout(self, index: int) -> Columns:
        """A variable for each possible mask of a layout."""
        match self.masks.layouts[index]:
            case LayerOutput(_, layer):
                return self.choices[layer]
            case Placed(_, part):
                return self.layout(part)
            case Union(_, parts):
                return self._union(parts)
            case StageOutput(_, stage, parts):
                return self._stage_output(index, stage, parts)
        return self._one_of(1)

    def _union(self, parts: Sequence[int]) -> Columns:
        columns, masks = self.layout(parts[0]), self.masks.of(parts[0])
        for part in parts[1:]:
            pairs = self._pairs(columns, self.layout(part), None).ravel()
            masks, indexes = self.masks.united(masks, self.masks.of(part))
            columns = self._new(len(masks))
            for i, column in enumerate(columns):
                self._add_constraint([(column, -1), (pairs[indexes.numpy() == i], 1)], 0, 0)
        return columns

    def _stage_output(self, index: int, stage: str, parts: Sequence[int]) -> Columns:
        columns = self._new(len(self.masks.of(index)))
        sources: list[list[int]] = [[] for _ in columns]
        for choice, depth in zip(self.choices[stage], self.masks.candidates[stage], strict=True):
            part = parts[depth - 1]
            gated = self._gated(self.layout(part), choice[None])
            for column, i in zip(gated, self.masks.indexes(index, part).tolist(), strict=True):
                sources[i].append(int(column))
        for column, found in zip(columns, sources, strict=True):
            self._add_constraint([(column, -1), (np.array(found), 1)], 0, 0)
        return columns

    def _gated(self, columns: Columns, gate: Columns | None) -> Columns:
        """The variables times the sum of the gate, a set of which at most one is 1."""
        if gate is None:
            return columns
        gated = self._new(len(columns))
        self._add_constraint([(gated, 1), (gate, -1)], 0, 0)
        for own, column in zip(gated, columns, strict=True):
            self._add_constraint([(own, 1), (column, -1)], -1, 0)
        return gated

    def _pairs(self, a: Columns, b: Columns, gate: Columns | None) -> Columns:
        """The products of two sets of variables, times the sum of the gate."""
        pairs = self._new(len(a), len(b))
        least = 0 if gate is None else -1
        for row, column in (*zip(pairs, a, strict=True), *zip(pairs.T, b, strict=True)):
            self._add_constraint([(row, 1), (column, -1)], least, 0)
        if gate is not None:
            self._add_constraint([(pairs.ravel(), 1), (gate, -1)], 0, 0)
        return pairs

    def _gate(self, part: Layer | ResidualAdd) -> Columns | None:
        """The variables of the depths that keep the block of a layer or add; None if all do."""
        if part.block is None:
            return None
        stage, index = part.block
        keep = np.array([depth > index for depth in self.masks.candidates[stage]])
        gate: Columns = self.choices[stage][keep]
        return gate

    def _pieces(self, index: int) -> list[tuple[Columns, NDArray[np.float64]]]:
        """Sets of variables, each with the width that each variable adds to a layout."""
        match self.masks.layouts[index]:
            case Concat(_, parts):
                return [piece for part in parts for piece in self._pieces(part)]
            case Repeated(_, part, times):
                return [(columns, times * widths) for columns, widths in self._pieces(part)]
        return [(self.layout(index), self.masks.widths(index).numpy())]

    def _add_layer_cost(self, layer: Layer) -> None:
        constant, by_in, by_out, by_both = cost_coefficients(layer, self.metric)
        gate = self._gate(layer)
        if gate is None:
            self.constant += constant
        elif constant:
            self._add_cost(gate, np.full(len(gate), float(constant)))
        for factor, index in ((by_in, layer.inputs), (by_out, layer.outputs)):
            if factor:
                for columns, widths in self._pieces(index):
                    self._add_cost(self._gated(columns, gate), factor * widths)
        if by_both:
            for a, ins in self._pieces(layer.inputs):
                for b, outs in self._pieces(layer.outputs):
                    self._add_cost(self._pairs(a, b, gate), by_both * np.outer(ins, outs))

    def _add_projection_cost(self, add: ResidualAdd) -> None:
        """A projection costs something where its input and output differ."""
        shortcut, outputs = add.projection[0].inputs, add.projection[0].outputs

        def cost(a: int, b: int) -> float:
            costs = [layer_cost(layer, a.bit_count(), b.bit_count()) for layer in add.projection]
            return float(sum(getattr(each, self.metric) for each in costs)) if a != b else 0.0

        costs = [[cost(a, b) for b in self.masks.of(outputs)] for a in self.masks.of(shortcut)]
        pairs = self._pairs(self.layout(shortcut), self.layout(outputs), self._gate(add))
        self._add_cost(pairs, np.array(costs))

    def _add_cost(self, columns: Columns, costs: NDArray[np.float64]) -> None:
        self.costs.append((columns.ravel(), costs.ravel()))

    def _constraints(self) -> LinearConstraint:
        values, rows, columns = [], [], []
        for i, (terms, _, _) in enumerate(self.rows):
            for variables, factor in terms:
                variables = np.atleast_1d(variables)
                columns.append(variables)
                rows.append(np.full(len(variables), i))
                values.append(np.full(len(variables), factor))
        table = coo_array(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
            shape=(len(self.rows), self.count),
        )
        low, high = (np.array([row[side] for row in self.rows]) for side in (1, 2))
        return LinearConstraint(table.tocsr(), low, high)

    def _band(self, low: float, high: float) -> LinearConstraint:
        total = np.zeros(self.count)
        for columns, costs in self.costs:
            np.add.at(total, columns, costs)
        # scaled to 1, for the solver's absolute tolerances
        low, high = low - self.constant, high - self.constant
        return LinearConstraint(total[None] / high, low / high, 1)
