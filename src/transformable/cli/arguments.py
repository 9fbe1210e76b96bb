"""The arguments of the long-running commands: frozen dataclasses that check their values.

The text under each field is its ``--help``.
"""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from tyro.conf import arg

from ..settings import (
    RATIOS,
    Distilling,
    Kd,
    Metric,
    Precision,
    Preset,
    Searching,
    Training,
    Transfer,
    at_least,
    named,
    one_of,
)

__all__ = ["Distill", "Job", "Prune", "Pruning", "Search", "Train", "job_of"]

Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")]
Count = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Job:
    """What every long-running command takes."""

    model: str = "resnet20"
    """Name of a network, or path.py:factory."""
    data: str = "digits"
    """digits, cifar10, cifar100, cifar10:16 (averaged to 16x16), folder:PATH or npz:PATH."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    download: bool = False
    """Fetch the dataset if it is not there."""
    preset: Preset = "quick"
    """Where the training starts from: quick (minutes) or paper (the published schedule)."""
    config: File = None
    """TOML file with any of these keys."""
    out: Folder = None
    """Run folder (default: in runs/, by command, model, data and seed)."""
    seed: int = 0
    """Decides the initial weights, the order of the images and their augmentation."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    devices: int = 1
    """How many devices (with cpu: processes) share each batch."""
    precision: Precision = "32-true"
    """Arithmetic: 32-bit, or mixed with bfloat16."""
    workers: int = 2
    """Processes that decode photos."""
    checkpoint_seconds: float = 30.0
    """Longest time between two checkpoints; there is one after each epoch too."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        named(self, "model", "data")
        at_least(self, "seed", 0)
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, not {self.seed}")
        at_least(self, "devices", 1)
        at_least(self, "workers", 0)
        at_least(self, "checkpoint_seconds", 0)
        one_of(self, "preset", get_args(Preset))
        one_of(self, "precision", get_args(Precision))


def job_of(config: Job) -> dict[str, Any]:
    """What the runs inside the folder of a job have in common with it."""
    shared = {field.name: getattr(config, field.name) for field in fields(Job)}
    return {**shared, "out": None, "config": None, "json": False}


@dataclass(frozen=True, kw_only=True)
class Train(Job, Training):
    """Train a network and test it.

    The same command on the same run folder goes on where it stopped. Values come
    from the preset, then the config file, then the command line.
    """

    shape: File = None
    """JSON file with a shape: train the network that has it, from scratch."""
    residual: Literal["pad", "project", "tied"] = "pad"
    """With a shape: what becomes of an add whose sides differ in width."""

    def __post_init__(self) -> None:
        Job.__post_init__(self)
        Training.__post_init__(self)
        one_of(self, "residual", ("pad", "project", "tied"))


@dataclass(frozen=True, kw_only=True)
class Distill(Job, Distilling):
    """Train the network of a shape with what the unpruned one has learnt.

    The same command on the same run folder goes on where it stopped. Values come
    from the preset, then the config file, then the command line.
    """

    shape: File = None
    """JSON file with the shape of the small network."""
    teacher: Text = None
    """The unpruned network, trained: a run folder, or a weights file of --model."""
    residual: Literal["pad", "project", "tied"] = "pad"
    """What becomes of an add whose sides differ in width."""

    def __post_init__(self) -> None:
        Job.__post_init__(self)
        Distilling.__post_init__(self)
        one_of(self, "residual", ("pad", "project", "tied"))


@dataclass(frozen=True, kw_only=True)
class Pruning(Job):
    """What every command takes that goes from a network to smaller, trained ones."""

    metric: Metric = "macs"
    """What is counted: macs or params."""
    tolerance: float = 0.05
    """How far from the target the cost may be, as a share of it."""
    teacher: Text = None
    """The unpruned network, trained: a run folder, or a weights file of --model (default: it is
    trained here)."""
    kd: Kd = "soft"
    """Distillation: soft, or the paper's equation."""
    teacher_epochs: Count = None
    """Epochs of training the unpruned network; this and the next three are the preset's if not
    given."""
    search_epochs: Count = None
    """Epochs of the search."""
    epochs: Count = None
    """Epochs of training the small network."""
    batch_size: Count = None
    """Images per step, in all three."""
    residual: Literal["pad", "project", "tied"] = "pad"
    """What becomes of an add whose sides differ in width."""
    search: Literal["both", "width", "depth"] = "both"
    """Which sizes are searched."""
    ratios: tuple[float, ...] = RATIOS
    """Candidate widths of a layer, as fractions of its width now; above 1 it may grow."""
    divisor: int = 1
    """Round candidate widths to multiples of this."""
    depth_step: int = 1
    """Step between the candidate depths of a stage."""
    validation: float = 0.05
    """Share of the training set that is held out to watch the training (0: none)."""

    # what is not given is the preset's, so that another preset is another run
    binds: ClassVar[frozenset[str]] = frozenset({"preset"})

    def __post_init__(self) -> None:
        Job.__post_init__(self)
        one_of(self, "metric", get_args(Metric))
        one_of(self, "residual", ("pad", "project", "tied"))
        one_of(self, "search", ("both", "width", "depth"))
        one_of(self, "kd", get_args(Kd))
        at_least(self, "divisor", 1)
        at_least(self, "depth_step", 1)
        for name in ("teacher_epochs", "search_epochs", "epochs", "batch_size"):
            if getattr(self, name) is not None:
                at_least(self, name, 1)
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, not {self.tolerance}")
        if not 0 <= self.validation < 1:
            raise ValueError(f"validation must be at least 0 and below 1, not {self.validation}")


@dataclass(frozen=True, kw_only=True)
class Prune(Pruning):
    """Make a network smaller: train it, search, derive a shape, train that by distillation.

    Then both networks are tested and timed, and the small one is exported and explained in a
    report. The same command on the same run folder goes on where it stopped. Learning rates and the
    like come from the preset; tas train, tas search and tas distill take them one by one.
    """

    budget: str = "0.5"
    """What the network may cost: a fraction of what it costs now (0.5) or a number (20M)."""
    transfer: Literal["preset", "none", "init", "kd", "init+kd"] = "preset"
    """What the small network takes over: none, channels (init), answers (kd), both (init+kd), or
    what the preset says."""

    def __post_init__(self) -> None:
        Pruning.__post_init__(self)
        one_of(self, "transfer", ("preset", *get_args(Transfer)))


@dataclass(frozen=True, kw_only=True)
class Search(Job, Searching):
    """Learn how wide each layer and how deep each stage should be for a budget.

    The same command on the same run folder goes on where it stopped. Values come
    from the preset, then the config file, then the command line.
    """

    budget: str = "0.5"
    """What the network may cost: a fraction of what it costs now (0.5) or a number (20M)."""
    metric: Metric = "macs"
    """What is counted: macs or params."""
    weights: Text = None
    """Trained weights to start from: a file, or the run folder of tas train."""
    residual: Literal["pad", "project", "tied"] = "pad"
    """What becomes of an add whose sides differ in width."""
    search: Literal["both", "width", "depth"] = "both"
    """Which sizes are searched."""
    ratios: tuple[float, ...] = RATIOS
    """Candidate widths of a layer, as fractions of its width now; above 1 it may grow."""
    divisor: int = 1
    """Round candidate widths to multiples of this."""
    depth_step: int = 1
    """Step between the candidate depths of a stage."""
    dry_run: bool = False
    """Say what there is to search and how long it would take, and stop."""

    def __post_init__(self) -> None:
        Job.__post_init__(self)
        Searching.__post_init__(self)
        one_of(self, "metric", get_args(Metric))
        one_of(self, "residual", ("pad", "project", "tied"))
        one_of(self, "search", ("both", "width", "depth"))
        at_least(self, "divisor", 1)
        at_least(self, "depth_step", 1)
