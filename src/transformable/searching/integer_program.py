"""The most probable shape inside a band, as a mixed-integer program.

Each choice is a set of 0-1 variables of which one is 1, and so is each layout over its possible
masks. The variables for pairs of masks (input, output of a layer) sum to these. Where the choices
are 0 or 1, a pair is the product of its two masks, so the cost, which is linear in pairs, is exact.
Without the band, the linear relaxation is tight for a network that is a chain.
"""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from ..costing.budget import BandError, Budget, Limit
from ..costing.possible_masks import PossibleMasks
from ..costing.terms import Term, merged
from ..tracing.layouts import LayerOutput, Placed, StageOutput, Union
from ..tracing.space import Space

__all__ = ["GaveUpError", "most_probable"]

Columns = NDArray[np.int64]  # indexes of variables

GAP = 1e-4  # the relative gap at which the solver stops
NODES = 20_000  # the number of nodes of the search tree at which the solver gives up
SLACK = 1e-5  # the relative amount by which the solver's tolerance may let a cost leave the band
INFEASIBLE = 2  # the status of such a program in scipy.optimize.milp


class GaveUpError(BandError):
    """The solver gave up: whether there is a shape inside the band is not known."""


def most_probable(
    logs: Mapping[str, NDArray[np.float64]], space: Space, budget: Budget
) -> dict[str, int]:
    """The candidate (its index) of each choice, for log-probabilities of all candidates; raises a
    ValueError if no shape inside the band is found."""
    program = IntegerProgram(space, budget)
    slack = SLACK * budget.high
    for less in (0, slack):
        found = program.solve(logs, budget.low + less, budget.high - less)
        if found is None and not less:
            raise BandError(
                f"no shape of this network has {budget.promise}; use a larger tolerance or more "
                "candidates"
            )
        if found is not None and budget.allows(space, space.shape_at(found)):
            return found
    raise GaveUpError(
        f"the solver found no shape that has {budget.promise}, which is too narrow for it; use a "
        "larger tolerance or more candidates"
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


class LinearCost(NamedTuple):
    """A cost that is linear in the variables: a constant, and variables with the cost of each."""

    constant: float
    parts: list[tuple[Columns, NDArray[np.float64]]]


class IntegerProgram:
    """The variables and constraints of a space, and its cost in the metric of a budget."""

    def __init__(self, space: Space, budget: Budget) -> None:
        self.budget = budget
        self.masks = PossibleMasks(space)
        self.count = 0
        self.rows: list[tuple[list[tuple[Columns, float]], float, float]] = []
        self.layout = cache(self._layout)
        self.choices = {name: self._one_of(len(c)) for name, c in self.masks.candidates.items()}
        self.integers = self.count
        self.cost = self._cost_of(space, budget)
        self.limits = [(self._cost_of(space, limit), limit.high) for limit in budget.at_most]

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
                constraints=[
                    self._constraints(),
                    self._band(self.cost, low, high),
                    *(self._band(cost, 0, (1 - SLACK) * most) for cost, most in self.limits),
                ],
                options={"mip_rel_gap": GAP, "node_limit": NODES},
            )
        if found.x is None and found.status != INFEASIBLE:
            raise GaveUpError(
                f"the solver gave up after {NODES:,} nodes without a shape that has "
                f"{self.budget.promise}; use a larger tolerance or fewer candidates"
            )
        if found.x is None:
            return None
        if not found.success:
            warnings.warn(
                f"the solver stopped after {NODES:,} nodes: the shape is inside of "
                f"{self.budget.band}, but perhaps not the most probable one there",
                stacklevel=4,
            )
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

    def _gate(self, part: Term) -> Columns | None:
        """The variables of the depths that keep the block of a term; None if all do."""
        if part.block is None:
            return None
        stage, index = part.block
        keep = np.array([depth > index for depth in self.masks.candidates[stage]])
        gate: Columns = self.choices[stage][keep]
        return gate

    def _cost_of(self, space: Space, limit: Limit) -> LinearCost:
        """A cost in the metric of a limit."""
        constant, parts = 0.0, []
        for term in merged(limit.terms(space, self.masks)):
            if term.original_only or not term.values.any():
                continue
            gate = self._gate(term)
            if term.ins is None and term.outs is None and gate is None:
                constant += float(term.values[0, 0])
            else:
                parts.append(self._priced(term, gate))
        return LinearCost(constant, parts)

    def _priced(self, term: Term, gate: Columns | None) -> tuple[Columns, NDArray[np.float64]]:
        """The variables that a term depends on, with the cost of each."""
        index = term.outs if term.ins is None else term.ins
        if index is None:
            assert gate is not None
            return gate, np.full(len(gate), term.values[0, 0])
        if term.ins is None or term.outs is None:
            return self._gated(self.layout(index), gate), term.values.ravel()
        if term.ins == term.outs:
            return self._gated(self.layout(index), gate), np.diagonal(term.values)
        pairs = self._pairs(self.layout(term.ins), self.layout(term.outs), gate)
        return pairs.ravel(), term.values.ravel()

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

    def _band(self, cost: LinearCost, low: float, high: float) -> LinearConstraint:
        total = np.zeros(self.count)
        for columns, costs in cost.parts:
            np.add.at(total, columns, costs)
        # scaled to 1, for the solver's absolute tolerances
        low, high = low - cost.constant, high - cost.constant
        return LinearConstraint(total[None] / high, low / high, 1)
