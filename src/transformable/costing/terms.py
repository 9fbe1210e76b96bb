"""A cost as a sum of terms, each of which depends on the masks of at most two layouts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import Metric
from ..tracing.reader import Block, Layer, ResidualAdd
from ..tracing.space import Space
from .cost import cost_coefficients, layer_cost
from .possible_masks import PossibleMasks

__all__ = ["Term", "count_terms", "merged"]


@dataclass(frozen=True, kw_only=True)
class Term:
    """A cost for each pair of masks of two layouts, if its block is kept."""

    block: Block
    ins: int | None
    outs: int | None
    values: NDArray[np.float64]
    """By the masks of `ins` and of `outs`; one row or column if it depends on no such layout."""
    original_only: bool = False


def merged(terms: Iterable[Term]) -> list[Term]:
    """The terms; those that depend on the same layouts are added up to one."""
    found: dict[tuple[Any, ...], Term] = {}
    for term in terms:
        key = term.block, term.ins, term.outs, term.original_only
        before = found.get(key)
        found[key] = term if before is None else replace(term, values=before.values + term.values)
    return list(found.values())


def count_terms(space: Space, masks: PossibleMasks, metric: Metric) -> Iterator[Term]:
    """The MACs or parameters of all networks derived from the original one."""
    for layer in space.layers:
        yield from _layer_terms(layer, masks, metric)
    for add in space.adds:
        if add.shortcut is not None:
            yield _projection_term(add, masks, metric)


def _layer_terms(layer: Layer, masks: PossibleMasks, metric: Metric) -> Iterator[Term]:
    constant, by_in, by_out, by_both = cost_coefficients(layer, metric)

    def term(ins: int | None, outs: int | None, values: NDArray[np.float64]) -> Term:
        return Term(
            block=layer.block,
            ins=ins,
            outs=outs,
            values=values,
            original_only=layer.original_only,
        )

    ins, outs = (
        [(i, times * masks.widths(i).numpy()) for i, times in masks.pieces(index)]
        for index in (layer.inputs, layer.outputs)
    )
    if constant:
        yield term(None, None, np.full((1, 1), float(constant)))
    if by_in:
        for i, widths in ins:
            yield term(i, None, by_in * widths[:, None])
    if by_out:
        for o, widths in outs:
            yield term(None, o, by_out * widths[None])
    if by_both:
        for i, widths_in in ins:
            for o, widths_out in outs:
                yield term(i, o, by_both * np.outer(widths_in, widths_out))


def _projection_term(add: ResidualAdd, masks: PossibleMasks, metric: Metric) -> Term:
    """A projection costs something where its input and output differ."""
    ins, outs = add.projection[0].inputs, add.projection[0].outputs

    def cost(a: int, b: int) -> float:
        costs = [layer_cost(layer, a.bit_count(), b.bit_count()) for layer in add.projection]
        return float(sum(getattr(each, metric) for each in costs)) if a != b else 0.0

    values = np.array([[cost(a, b) for b in masks.of(outs)] for a in masks.of(ins)])
    return Term(block=add.block, ins=ins, outs=outs, values=values)
