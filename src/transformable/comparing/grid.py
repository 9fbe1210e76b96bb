"""Many trials: the arguments of the commands that compare, and the trials that they stand for."""

import itertools
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, get_args

from tyro.conf import arg

from ..cli.arguments import Pruning, Text
from ..settings import Transfer, at_least
from ..spelling import nearest

__all__ = ["METHODS", "Compare", "Grid", "Sweep", "Trial"]

METHODS = {
    "tas": "tas:both",
    "tas-width": "tas:width",
    "tas-depth": "tas:depth",
    **{name: f"{name}:{name}" for name in ("uniform", "random", "pfec", "fpgm", "taylor")},
    **{name: f"{name}:{name}" for name in ("slimming", "sfp", "cp", "amc", "autoslim", "lccl")},
}
"""Where each method is in ``methods``, as "module:function"."""
ALL = ",".join(METHODS)

List = Annotated[str, arg(metavar="A,B,..")]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One method, one budget, one seed: a search, and a training for each kind of transfer.

    >>> Trial(method="pfec", budget="50%", seed=1).name
    'pfec-50-seed1'
    """

    method: str
    budget: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        budget = re.sub(r"[^\w.]+", "", self.budget)
        return f"{self.method}-{budget}-seed{self.seed}"


@dataclass(frozen=True, kw_only=True)
class Grid(Pruning, ABC):
    """What the commands take that run many trials."""

    methods: List = ALL
    """Which methods."""
    seeds: int = 3
    """How many seeds, counted from --seed; the teacher is trained with the first."""
    transfer: List = "init"
    """How the small networks are trained: one or more of none, init, kd, init+kd."""
    jobs: int = 1
    """Trials that run side by side; they share the processors."""

    # a folder may be asked for more
    grows: ClassVar[frozenset[str]] = frozenset({"methods", "seeds", "transfer", "jobs"})

    def __post_init__(self) -> None:
        Pruning.__post_init__(self)
        at_least(self, "seeds", 1)
        at_least(self, "jobs", 1)
        if self.devices > 1:
            raise ValueError("trials take one device each: use --jobs instead of --devices")
        known = {"methods": tuple(METHODS), "transfer": get_args(Transfer)}
        for field, names in known.items():
            for name in split(getattr(self, field)):
                if name not in names:
                    raise ValueError(f"unknown {field} {name!r}; {nearest(name, list(names))}")
            if not split(getattr(self, field)):
                raise ValueError(f"{field} must not be empty; use some of {', '.join(names)}")

    @abstractmethod
    def budget_list(self) -> list[str]:
        """The budgets."""

    def trials(self) -> list[Trial]:
        """All trials, the first seed of all methods first."""
        seeds = range(self.seed, self.seed + self.seeds)
        return [
            Trial(method=method, budget=budget, seed=seed)
            for seed, budget, method in itertools.product(
                seeds, self.budget_list(), split(self.methods)
            )
        ]

    def transfers(self) -> list[Transfer]:
        """The kinds of transfer."""
        return [name for name in get_args(Transfer) if name in split(self.transfer)]


@dataclass(frozen=True, kw_only=True)
class Compare(Grid):
    """Which method is best for a network and a budget: all on equal terms.

    One teacher; the small networks are trained on the same images in the same order, for the same
    epochs with the same schedule. Runs that are done are not run again, also if more methods, seeds
    or kinds of transfer are asked for; one that fails is shown with its reason, and tried again by
    the next call.
    """

    budget: str = "0.5"
    """What the network may cost: a fraction of what it costs now (0.5) or a number (20M)."""

    def budget_list(self) -> list[str]:
        return [self.budget]


@dataclass(frozen=True, kw_only=True)
class Sweep(Grid):
    """How accurate a network can be for what it costs: one method, or more, over several budgets.

    With the extra sweep, the trials are kept in an Optuna study: several processes, on one machine
    or on many, that are given the same storage share them. Those that share no folder should be
    given the same teacher.
    """

    methods: List = "tas"
    """Which methods."""
    seeds: int = 1
    """How many seeds, counted from --seed; the teacher is trained with the first."""
    budgets: List = "0.3,0.5,0.7"
    """What the network may cost: fractions of what it costs now (0.5) or numbers (20M)."""
    storage: Text = None
    """Where the study is kept: a database as a URL (default: the file study.db in the folder)."""
    study: str = "sweep"
    """Name of the study."""

    # what the trials in a study are is the same for all who share it
    grows: ClassVar[frozenset[str]] = (Grid.grows - {"transfer"}) | {"budgets", "storage", "study"}

    def __post_init__(self) -> None:
        Grid.__post_init__(self)
        if not split(self.budgets):
            raise ValueError("budgets must not be empty")

    def budget_list(self) -> list[str]:
        return split(self.budgets)


def split(text: str) -> list[str]:
    """
    >>> split("pfec, fpgm,,pfec")
    ['pfec', 'fpgm']
    """
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
