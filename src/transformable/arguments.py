"""The arguments of each command: frozen dataclasses, whose values are checked where they are made.

The text under each field is its ``--help``.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

from tyro.conf import Positional, arg

from .config import RATIOS, Metric, Precision, Preset, Searching, Training, at_least, named, one_of

__all__ = ["Cost", "Evaluate", "Job", "Search", "Train"]

Residual = Literal["auto", "pad", "project", "tied"]

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
    """digits, cifar10, cifar100, folder:PATH or npz:PATH."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    download: bool = False
    """Fetch the dataset if it is not there."""
    preset: Preset = "quick"
    """Where the training starts from: quick (minutes) or paper (the published schedule)."""
    config: File = None
    """TOML file with any of these keys."""
    out: Folder = None
    """Run folder (default: runs/MODEL-DATA-seedN)."""
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


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Accuracy on the test set: of a run folder, or of a network with a weights file."""

    run: Annotated[Positional[str | None], arg(metavar="RUN_DIR")] = None
    """Folder of a finished run; gives the network, the weights and the dataset."""
    model: Text = None
    """Name of a network, or path.py:factory."""
    weights: File = None
    """Weights of the network: .safetensors, or a torch file with a state dict."""
    data: Text = None
    """digits, cifar10, cifar100, folder:PATH or npz:PATH (default: the run's, else digits)."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    download: bool = False
    """Fetch the dataset if it is not there."""
    config: File = None
    """TOML file with any of these keys."""
    batch_size: int = 500
    """Images per forward pass."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    precision: Precision = "32-true"
    """Arithmetic: 32-bit, or mixed with bfloat16."""
    workers: int = 2
    """Processes that decode photos."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        at_least(self, "batch_size", 1)
        at_least(self, "workers", 0)
        one_of(self, "precision", get_args(Precision))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """MACs and parameters of a network, layer by layer, exact.

    A MAC is a multiply-accumulate of a convolution or linear layer, for one image; the bias of a
    linear layer counts one an output. The paper calls them FLOPs.
    """

    model: str = "resnet20"
    """Name of a network, or path.py:factory."""
    data: str = "digits"
    """Dataset that says how large the images are and how many classes there are."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    size: Count = None
    """Height and width of the images, instead of the dataset's (with 3 channels)."""
    num_classes: Count = None
    """Number of classes, instead of the dataset's."""
    shape: File = None
    """JSON file with a shape of the network."""
    published: Text = None
    """A network that the paper's authors published; "list" shows them all."""
    residual: Residual = "auto"
    """What becomes of an add whose sides differ; auto is project if published, else pad."""
    config: File = None
    """TOML file with any of these keys."""
    json: bool = False
    """Print one JSON object and nothing else."""

    def __post_init__(self) -> None:
        named(self, "model", "data")
        for name in ("size", "num_classes"):
            if getattr(self, name) is not None:
                at_least(self, name, 1)
        one_of(self, "residual", get_args(Residual))
        if self.shape and self.published:
            raise ValueError("give --shape or --published, not both")
        if self.published and (self.model, self.data) != (Cost.model, Cost.data):
            raise ValueError("a published network has its own --model and --data: leave them out")
