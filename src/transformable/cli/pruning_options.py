"""The options of the commands that make networks smaller: one job, or many trials.

The text under each field is its ``--help``.
"""

from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Self, get_args

from tyro.conf import arg

from ..launch import torchrun_processes
from ..methods import METHODS
from ..presets import quick_search, quick_student, quick_teacher
from ..settings import MILLION, Distilling, Searching, Training, Transfer, at_least, between
from .options import Count, List, RunOptions, SpaceOptions, Text, Whole, check_new_head

ALL_METHODS = ",".join(METHODS)
WIDER = (0.01, 0.02, 0.05)

__all__ = ["Compare", "Prune", "PruningOptions", "Sweep", "TrialOptions", "as_sweep", "split"]


@dataclass(frozen=True, kw_only=True)
class PruningOptions(SpaceOptions, RunOptions):
    """The options that tas prune, compare and sweep have in common."""

    teacher: Text = None
    """The trained, unpruned network: a run folder, or a weights file for --model (default: it is
    trained here)."""
    new_head: bool = False
    """Take all weights of the teacher's file except the last layer's, which starts fresh: for other
    classes. The unpruned network is then trained here, from these weights."""
    dry_run: bool = False
    """Print an estimate of time and memory, then exit."""
    teacher_epochs: Count = None
    """Epochs of training the unpruned network: short for --train.epochs."""
    search_epochs: Whole = None
    """Epochs of the search: short for --search.epochs."""
    epochs: Count = None
    """Epochs of training the small network: short for --student.epochs."""
    batch_size: Count = None
    """Images per step, in all three."""
    train: Training = field(default_factory=lambda: quick_teacher("digits"))
    """The training of the unpruned network; the defaults here and below are the preset's."""
    search: Searching = field(default_factory=lambda: quick_search("digits"))
    """The search, or what another method does to find the small network."""
    student: Distilling = field(default_factory=lambda: quick_student("digits"))
    """The training of the small network."""

    short_for: ClassVar[dict[str, tuple[str, ...]]] = {
        "teacher_epochs": ("train.epochs",),
        "search_epochs": ("search.epochs",),
        "epochs": ("student.epochs",),
        "batch_size": ("train.batch_size", "search.batch_size", "student.batch_size"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limits()  # refused before a run folder is opened
        check_new_head(self.new_head, "teacher", self.teacher)

    @property
    def given(self) -> bool:
        """Whether the unpruned network is trained already."""
        return self.teacher is not None and not self.new_head

    def expanded(self, base: Self) -> Self:
        """The same options, with the values of the short ones written into their sections.

        ``base`` are the options before the last source of values was read: a value of a section
        that differs from them was given too, which is a conflict.
        """
        changed = self
        for short, names in self.short_for.items():
            value = getattr(self, short)
            for section, name in (full.split(".") for full in names if value is not None):
                inner = getattr(self, section)
                given = getattr(inner, name)
                if given not in (value, getattr(getattr(base, section), name)):
                    raise ValueError(
                        f"{short} is {value} and {section}.{name} is {given}; give only one of them"
                    )
                outer = getattr(changed, section)
                changed = replace(changed, **{section: replace(outer, **{name: value})})
        cleared: dict[str, Any] = dict.fromkeys(self.short_for)
        return replace(changed, **cleared)


@dataclass(frozen=True, kw_only=True)
class Prune(PruningOptions):
    """Make a network smaller: train it, find a smaller one, train that by distillation.

    Then both networks are tested and timed, and the small one is exported and explained in a
    report. The same command on the same run folder continues where it stopped.
    """

    budget: str = "0.5"
    """Target cost: a fraction of the unpruned network's (0.5) or a number (20M). Several
    (0.7,0.5,0.3) make a network for each of them in one search, like tas sweep."""
    method: str = "tas"
    """How the small network is found: tas, tas-width, tas-depth, uniform, random, pfec, fpgm,
    taylor, slimming, sfp, cp, amc, autoslim, lccl, torch-pruning, torch-pruning-sparse, or
    path.py:function."""
    transfer: Annotated[
        Transfer | None, arg(metavar="{none,init,kd,init+kd}", help_behavior_hint="")
    ] = None
    """What the small network takes over: short for --student.transfer."""
    export: bool = True
    """Write the small network as safetensors, ONNX and torch.export."""

    short_for: ClassVar[dict[str, tuple[str, ...]]] = {
        **PruningOptions.short_for,
        "transfer": ("student.transfer",),
    }


@dataclass(frozen=True, kw_only=True)
class TrialOptions(PruningOptions):
    """The options that tas compare and sweep have in common."""

    methods: List = "tas"
    """Which methods: those of tas prune --help, or path.py:function."""
    seeds: Annotated[int, at_least(1), MILLION] = 3
    """How many seeds, counted from --seed; the teacher is trained with the first."""
    transfer: Annotated[Text, arg(metavar="A,B,..", help_behavior_hint="")] = None
    """What the small networks take over, one or more of none, init, kd, init+kd (default: as
    --student.transfer, which the preset chooses)."""
    passes: Count = None
    """Total passes (forward and backward over the training set) for the method and the training of
    its small network; the small network gets the remainder (default: the epochs of the search and
    of that training). A forward pass alone counts a third; the teacher's outputs in distillation
    and its own training are not counted."""
    tolerance: Annotated[float, between(0, 1)] = 0.005
    """How far from the target the cost may be, as a share of it. A method that is too coarse for
    that may use up to 0.05, and is marked: it is compared at another cost."""
    jobs: Annotated[int, at_least(1)] = 1
    """Trials that run at the same time; they share the processors, and take the GPUs in turn."""
    export: bool = False
    """Write every small network as safetensors, ONNX and torch.export (tas export does one)."""

    may_grow: ClassVar[frozenset[str]] = frozenset({"methods", "seeds", "transfer", "jobs"})
    """Options that may change when a folder is continued: they ask for more trials."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.devices or 1) > 1:
            raise ValueError("trials take one device each: use --jobs instead of --devices")
        for name in ("methods", "budgets"):
            if not split(getattr(self, name, "0.5")):
                raise ValueError(f"{name} must not be empty")
        if self.transfer is not None and not split(self.transfer):
            raise ValueError("transfer must not be empty")
        for name in split(self.transfer or ""):
            if name not in get_args(Transfer):
                known = ", ".join(get_args(Transfer))
                raise ValueError(f"transfer must be some of {known}, not {name!r}")

    def settings(self) -> dict[str, Any]:
        """The content of config.toml: also the passes that follow from other settings."""
        passes = self.all_passes()
        return super().settings() | ({} if passes is None else {"passes": passes})

    def all_passes(self) -> int | None:
        """The passes that a method and the training of its small network spend together; None if
        every small network is trained for the epochs of its settings, whatever was spent before."""
        return self.search.epochs + self.student.epochs if self.passes is None else self.passes

    def check_passes(self) -> None:
        """Refuse passes of which a search leaves none."""
        passes = self.all_passes()
        if passes is not None and passes <= self.search.epochs:
            raise ValueError(
                f"passes must be more than the {self.search.epochs} epochs of the search, not "
                f"{self.passes}; or use fewer --search-epochs"
            )

    def all_budgets(self) -> list[str]:
        """The budgets of all trials."""
        budgets: str = getattr(self, "budgets", "") or getattr(self, "budget", "")
        return split(budgets)

    def wider(self) -> list[float]:
        """The tolerances that are tried where a method finds nothing inside the band."""
        return [tolerance for tolerance in WIDER if tolerance > self.tolerance]

    def transfers(self) -> list[Transfer]:
        """The kinds of transfer that are asked for, in the order none, init, kd, init+kd."""
        named = split(self.transfer or self.student.transfer)
        return [name for name in get_args(Transfer) if name in named]


@dataclass(frozen=True, kw_only=True)
class Compare(TrialOptions):
    """Which method is best for a network and a budget: all on equal terms.

    One teacher; the same passes over the training images for each method and its small network
    together, in the same order and with the same schedule; the same cost. Runs that are done are
    not run again, also if more methods, seeds or kinds of transfer are asked for; a run that fails
    is shown with its reason, and tried again by the next call.
    """

    methods: List = ALL_METHODS
    """Which methods; path.py:function is one of your own."""
    budget: str = "0.5"
    """Target cost: a fraction of the unpruned network's (0.5) or a number (20M)."""


@dataclass(frozen=True, kw_only=True)
class Sweep(TrialOptions):
    """How accurate a network can be for what it costs: one method, or more, over several budgets.

    With the extra sweep installed, the trials are kept in an Optuna study, and several processes,
    on one machine or on many, share them by the same --storage. Processes that do not share the run
    folder should be given the same --teacher.
    """

    seeds: Annotated[int, at_least(1), MILLION] = 1
    """How many seeds, counted from --seed; the teacher is trained with the first."""
    budgets: List = "0.3,0.5,0.7"
    """Target costs: fractions of the unpruned network's (0.5) or numbers (20M)."""
    storage: Text = None
    """URL of the database that holds the study (default: the file study.db in the run folder)."""
    study: str = "sweep"
    """Name of the study."""

    # the trials of a study have the same kinds of transfer for all who share it
    may_grow: ClassVar[frozenset[str]] = frozenset(
        {"methods", "seeds", "jobs", "budgets", "storage", "study"}
    )


class _SeveralBudgets(Sweep):
    """A sweep whose small networks are each trained for the epochs of their settings, as that of a
    single budget is."""

    # the command: folders of before name tas sweep
    may_grow: ClassVar[frozenset[str]] = Sweep.may_grow | {"command"}

    def kind(self) -> str:
        return "prune"

    def all_passes(self) -> None:
        return None


def as_sweep(options: Prune) -> Sweep:
    """The sweep that makes the networks of all budgets of a tas prune."""
    if (options.devices or torchrun_processes()[0]) > 1:
        raise ValueError("several budgets take one device: leave out --devices and torchrun")
    own = {"budget", "method", "transfer"}
    same = {
        field.name: getattr(options, field.name) for field in fields(Prune) if field.name not in own
    }
    return _SeveralBudgets(
        **same,
        methods=options.method,
        budgets=options.budget,
        transfer=options.student.transfer,
    )


def split(text: str) -> list[str]:
    """The different parts of a text that is separated by commas.

    >>> split("pfec, fpgm,,pfec")
    ['pfec', 'fpgm']
    """
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
