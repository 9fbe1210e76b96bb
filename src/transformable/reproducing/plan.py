"""The runs that tables need, with what they share: one teacher for a network and a dataset."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from ..settings import Transfer
from .lines import PUBLISHED, Run, Section

__all__ = ["Batch", "Study", "studies_of"]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Trials of one budget: each method with each seed, one search for all kinds of transfer."""

    budget: str
    methods: tuple[str, ...]
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True, kw_only=True)
class Study:
    """The runs of one network on one dataset, which share its teacher."""

    model: str
    data: str
    select: int | None = None
    batches: tuple[Batch, ...] = ()
    published: tuple[str, ...] = ()
    """Published networks that are trained on the same images, without the teacher."""

    @property
    def name(self) -> str:
        """The name of its folder.

        >>> Study(model="resnet32", data="cifar10:16", select=8).name
        'resnet32-cifar10-16-select8'
        """
        words = re.sub(r"[^\w.]+", "-", f"{self.model}-{self.data}").strip("-.")
        return words if self.select is None else f"{words}-select{self.select}"

    @property
    def teacher(self) -> str:
        """The name of the study that trains the teacher: this one, or that without ``select``."""
        return Study(model=self.model, data=self.data).name


def studies_of(
    sections: Iterable[Section], teachers: Sequence[tuple[str, str]] = ()
) -> list[Study]:
    """The studies of all sections together; what several of them need is there once.

    ``teachers`` are further networks and datasets that need a teacher. A study without ``select``
    comes before those that use its teacher.
    """
    found: dict[tuple[str, str], dict[int | None, list[Run]]] = {}
    for model, data in teachers:
        found.setdefault((model, data), {None: []})
    for section in sections:
        for line in section.lines:
            run = line.run
            by_select = found.setdefault((run.model, run.data), {None: []})
            by_select.setdefault(run.select, []).append(run)
    return [
        Study(
            model=model,
            data=data,
            select=select,
            batches=tuple(_batches(runs)),
            published=tuple(dict.fromkeys(run.budget for run in runs if run.method == PUBLISHED)),
        )
        for (model, data), by_select in found.items()
        for select, runs in by_select.items()
    ]


def _batches(runs: Sequence[Run]) -> list[Batch]:
    """The trials of runs: methods that need the same kinds of transfer at a budget together."""
    wanted: dict[tuple[str, str], set[Transfer]] = {}
    for run in runs:
        if run.method != PUBLISHED:
            wanted.setdefault((run.budget, run.method), set()).add(run.transfer)
    together: dict[tuple[str, tuple[Transfer, ...]], list[str]] = {}
    for (budget, method), kinds in wanted.items():
        transfers = tuple(kind for kind in get_args(Transfer) if kind in kinds)
        together.setdefault((budget, transfers), []).append(method)
    return [
        Batch(budget=budget, methods=tuple(methods), transfers=transfers)
        for (budget, transfers), methods in together.items()
    ]
