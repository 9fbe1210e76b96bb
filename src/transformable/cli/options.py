"""The options of the long-running commands: frozen dataclasses that check their values.

The text under each field is its ``--help``.
"""

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_args

from tyro.conf import arg

from ..presets import PRESETS
from ..settings import (
    FRACTION,
    MILLION,
    RATIOS,
    VALIDATION,
    Constraint,
    Distilling,
    Metric,
    Precision,
    Preset,
    Residual,
    Runtime,
    Searching,
    Sizes,
    Training,
    at_least,
    between,
    check_fields,
    plain_values,
)
from .places import absolute_path, absolute_spec

__all__ = [
    "MAY_DIFFER",
    "Distill",
    "RunOptions",
    "Search",
    "SpaceOptions",
    "Train",
    "check_new_head",
    "option_names",
]

Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")]
Whole = Annotated[int | None, arg(metavar="INT", help_behavior_hint=""), MILLION]
Count = Annotated[Whole, at_least(1)]
Numbers = Annotated[tuple[float, ...], arg(metavar="X Y Z", help_behavior_hint="")]
List = Annotated[str, arg(metavar="A,B,..")]
DIVISOR = Constraint(
    "a whole number of at least 1, or auto",
    lambda value: re.fullmatch("auto|[1-9][0-9]{0,5}", str(value)) is not None,
)
Names = Annotated[tuple[str, ...], arg(metavar="NAME ..", help_behavior_hint="")]

UNRECORDED = frozenset({"config", "debug", "dry_run", "json", "out", "trust"})
"""Options that say how a command was called, not what it computes."""
MAY_DIFFER = frozenset(
    {"checkpoint_seconds", "data_dir", "device", "devices", "download", "preset", "workers"}
)
"""Options that do not change the result: a run may be continued with other values of them."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every command that works in a run folder."""

    model: str = "resnet20"
    """Name of a network, timm:NAME, torchvision:NAME, or path.py:factory, a file that is run."""
    data: str = "digits"
    """digits, cifar10, cifar100, cifar10:16 (averaged to 16x16), folder:PATH or npz:PATH."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    download: bool = False
    """Download the dataset if it is missing."""
    image_size: Count = None
    """Height and width to which photos are resized (default: 224)."""
    mean: Numbers = ()
    """Mean that images are normalised with, as in the network's own training, for pixels of 0 to 1:
    one number or one per channel (default: the dataset's own)."""
    std: Numbers = ()
    """Standard deviation that images are normalised with, likewise."""
    leaf: Names = ()
    """Modules of the network that are kept whole, such as those that torch.fx cannot trace."""
    validation: Annotated[float, FRACTION] = VALIDATION
    """Share of the training set that is held out for validation (0: none)."""
    preset: Preset = "quick"
    """Defaults of the settings: quick (minutes, from a trained network), scratch (a search by
    interpolation, and a small network that starts fresh) or paper (the published schedule)."""
    config: File = None
    """TOML file with values of these options."""
    out: Folder = None
    """Run folder (default: in runs/, named by command, budget, model, data and seed)."""
    seed: Annotated[int, at_least(0), Constraint("below 2**63", lambda seed: seed < 2**63)] = 0
    """Seed of the initial weights, the order of the images and their augmentation."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    devices: Count = None
    """How many devices (with cpu: processes) share each batch (default: one, or all processes that
    torchrun has started)."""
    precision: Precision = "32-true"
    """Arithmetic: 32-bit, or mixed with bfloat16."""
    workers: Annotated[int, at_least(0)] = 2
    """Processes that decode photos."""
    checkpoint_seconds: Annotated[float, at_least(0)] = 30.0
    """Longest time between two checkpoints; there is one after each epoch too."""
    json: bool = False
    """Print one JSON object and nothing else."""
    debug: bool = False
    """On an error, print the traceback too; so does TAS_DEBUG=1 in the environment."""

    def __post_init__(self) -> None:
        check_fields(self)

    def kind(self) -> str:
        """The name of the command that makes runs of this kind."""
        return type(self).__name__.lower()

    def settings(self) -> dict[str, Any]:
        """The content of config.toml in the run folder."""
        values = {"command": self.kind(), **plain_values(self)}
        # absolute, because a later command may read the data from another working directory
        values["data"] = absolute_spec(self.data)
        if self.data_dir is not None:
            values["data_dir"] = absolute_path(self.data_dir)
        return {name: value for name, value in values.items() if name not in UNRECORDED}

    def source(self) -> dict[str, Any]:
        """Where the network and the images come from."""
        names = ("model", "data", "data_dir", "image_size", "mean", "std", "validation", "seed")
        settings = self.settings()
        return {name: settings[name] for name in (*names, "precision") if name in settings}

    def folder(self, prefix: str = "") -> Path:
        """The run folder.

        >>> str(Train(model="nets/mine.py:tiny", data="npz:faces.npz", seed=3).folder())
        'runs/nets-mine.py-tiny-npz-faces.npz-seed3'
        """
        if self.out is not None:
            return Path(self.out)
        kinds = (getattr(self, "metric", "macs"), self.preset)
        unusual = "".join(f"{kind}-" for kind in kinds if kind not in ("macs", "quick"))
        words = re.sub(r"[^\w.]+", "-", f"{prefix}{unusual}{self.model}-{self.data}").strip("-.")
        return Path("runs") / f"{words}-seed{self.seed}"


@dataclass(frozen=True, kw_only=True)
class SpaceOptions:
    """Which sizes a network may have."""

    residual: Residual = "pad"
    """How a residual add treats inputs of different widths: pad (zeros), project (1x1 convolution)
    or tied (equal widths)."""
    sizes: Sizes = "both"
    """Which sizes may change: widths, depths or both."""
    ratios: tuple[float, ...] = RATIOS
    """Candidate widths of a layer, as fractions of its present width; above 1 it may grow."""
    divisor: Annotated[str, DIVISOR] = "1"
    """Round candidate widths to multiples of this; auto measures which multiples are fastest on
    this machine."""
    depth_step: Annotated[int, at_least(1)] = 1
    """Step between the candidate depths of a stage."""
    metric: Metric = "macs"
    """Cost metric of the budget: macs, params, or latency, which is measured on this machine."""
    tolerance: Annotated[float, between(0, 1)] = 0.05
    """How far from the target the cost may be, as a share of it; for a latency at least 0.05."""
    at_most: Annotated[str | None, arg(metavar="METRIC=AMOUNT,..", help_behavior_hint="")] = None
    """What the network may cost at most in other metrics, such as latency=3ms or params=0.5."""
    runtime: Runtime = "torch"
    """For a latency: what the network runs in."""
    latency_batch: Annotated[int, at_least(1)] = 1
    """For a latency: images at a time."""
    latency_threads: Annotated[int, at_least(1)] = 1
    """For a latency: threads of the processor."""
    latency_table: File = None
    """For a latency: a table of tas latency --out (default: measured once, kept in the cache)."""
    latency_machine: Text = None
    """Accept a latency table that was measured on this other machine (the name stored in the
    file)."""

    def limits(self) -> dict[str, str]:
        """The amounts of at_most, by metric."""
        found = {}
        for text in filter(str.strip, (self.at_most or "").split(",")):
            metric, _, amount = (part.strip() for part in text.partition("="))
            if metric not in get_args(Metric) or not amount:
                known = ", ".join(get_args(Metric))
                raise ValueError(
                    f"at_most must be METRIC=AMOUNT with a metric of {known}, not {text.strip()!r}"
                )
            if metric == self.metric:
                raise ValueError(f"at_most {text.strip()}: the budget itself is in {metric}")
            found[metric] = amount
        return found

    def check_times(self) -> None:
        """Raise a ValueError for an option of latencies that no latency is asked for with."""
        if self.metric == "latency" or "latency" in self.limits():
            return
        names = ["latency_table", "latency_machine"]
        if self.divisor != "auto":
            names += ["runtime", "latency_batch", "latency_threads"]
        for name in names:
            if getattr(self, name) != getattr(type(self), name):
                raise ValueError(
                    f"{name} is for a latency: --metric latency, or --at-most latency=3ms beside "
                    f"a budget in {self.metric}"
                )


@dataclass(frozen=True, kw_only=True)
class Train(RunOptions, Training):
    """Train a network and test it."""

    shape: File = None
    """JSON file with a shape: train the network that has it, from scratch."""
    published: Text = None
    """A network that the paper's authors published, by its name in tas cost --published list:
    train it from scratch. It has a --model and a --residual of its own."""
    residual: Residual = "pad"
    """With a shape: how a residual add treats inputs of different widths: pad (zeros), project (1x1
    convolution) or tied (equal widths)."""
    weights: Text = None
    """Weights to start from: a file, or the run folder of tas train."""
    new_head: bool = False
    """Take all of those weights except the last layer's, which starts fresh: for other classes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_new_head(self.new_head, "weights", self.weights)
        if self.weights and (self.shape or self.published):
            raise ValueError("a network of a shape starts from scratch: leave out --weights")
        if self.shape and self.published:
            raise ValueError("give --shape or --published, not both")


@dataclass(frozen=True, kw_only=True)
class Distill(RunOptions, Distilling):
    """Train the network of a shape with what the unpruned one has learnt."""

    shape: File = None
    """JSON file with the shape of the small network."""
    teacher: Text = None
    """The trained, unpruned network: the run folder of tas train or prune, or a weights file for
    --model."""
    trust: bool = False
    """Run the path.py:factory that the teacher's folder names, if it is not --model: only for a
    folder whose author you trust."""
    sort: bool = True
    """With init: take the most important channels of each layer instead of its first ones."""
    residual: Residual = "pad"
    """How a residual add treats inputs of different widths: pad (zeros), project (1x1 convolution)
    or tied (equal widths)."""


@dataclass(frozen=True, kw_only=True)
class Search(SpaceOptions, RunOptions, Searching):
    """Learn how wide each layer and how deep each stage should be for a budget."""

    budget: str = "0.5"
    """Target cost: a fraction of the unpruned network's (0.5) or a number (20M)."""
    weights: Text = None
    """Trained weights to start from: a file, or the run folder of tas train."""
    new_head: bool = False
    """Take all of those weights except the last layer's, which starts fresh: for other classes. The
    network is then trained before the search, as without weights."""
    pretrain_epochs: Annotated[int, at_least(0), MILLION] = PRESETS["quick"].pretrain_epochs
    """Without weights: epochs of plain training before the search."""
    validation: Annotated[float, FRACTION] = 0.0
    """Share of the training set that is held out of the search (0: none)."""
    dry_run: bool = False
    """Print the size of the search space and an estimate of time and memory, then exit."""

    def __post_init__(self) -> None:
        Searching.__post_init__(self)
        self.limits()  # refused before a run folder is opened
        check_new_head(self.new_head, "weights", self.weights)
        if self.weights is not None and self.start == "scratch":
            raise ValueError(
                "a search that starts from scratch has no use for weights; use --start even"
            )

    def pretrains(self) -> bool:
        """Whether the network is trained before the search."""
        return (self.weights is None or self.new_head) and self.pretrain_epochs > 0


def check_new_head(new_head: bool, option: str, weights: str | None) -> None:
    """Refuse a new last layer if no weights are given."""
    if new_head and weights is None:
        raise ValueError(f"--new-head replaces the last layer of given weights: give --{option}")


def option_names(kind: Any) -> list[str]:
    """All options of a command, as they are written behind ``--``."""
    names = []
    for entry in fields(kind):
        inner = entry.type if hasattr(entry.type, "__dataclass_fields__") else None
        prefix = entry.name.replace("_", "-")
        names += [prefix] if inner is None else [f"{prefix}.{name}" for name in option_names(inner)]
    return names
