"""What can be chosen: one frozen dataclass for training and one for the arguments of each command.

The text under each field is its ``--help``. Values are checked where they are made.
"""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args

from tyro.conf import Positional, arg

__all__ = ["Cost", "Evaluate", "Precision", "Preset", "Train", "Training"]

Precision = Literal["32-true", "bf16-mixed"]
Preset = Literal["quick", "paper"]
Residual = Literal["auto", "pad", "project", "tied"]

Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
File = Annotated[str | None, arg(metavar="FILE", help_behavior_hint="")]
Folder = Annotated[str | None, arg(metavar="DIR", help_behavior_hint="")]
Count = Annotated[int | None, arg(metavar="INT", help_behavior_hint="")]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to train: SGD, a learning rate per step (linear warm-up, then cosine to 0).

    >>> Training(epochs=3).epochs
    3
    >>> Training(batch_size=0)
    Traceback (most recent call last):
    ValueError: batch_size must be at least 1, not 0
    """

    epochs: int = 10
    """Passes over the training set."""
    batch_size: int = 64
    """Images per step, over all devices together."""
    lr: float = 0.1
    """Highest learning rate, reached at the end of the warm-up."""
    momentum: float = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov's momentum, where there is momentum."""
    weight_decay: float = 5e-4
    """Weight decay, on every parameter."""
    warmup_epochs: float = 0.5
    """Epochs, out of all, in which the learning rate rises from 0 (at most half of them)."""
    label_smoothing: float = 0.0
    """Share of each target that is spread over all classes."""
    validation: float = 0.05
    """Share of the training set that is held out to watch the training (0: none)."""

    def __post_init__(self) -> None:
        _at_least(self, "epochs", 1)
        _at_least(self, "batch_size", 1)
        _above(self, "lr", 0)
        _from_below(self, "momentum", 0, 1)
        _at_least(self, "weight_decay", 0)
        _at_least(self, "warmup_epochs", 0)
        _from_below(self, "label_smoothing", 0, 1)
        _from_below(self, "validation", 0, 1)


@dataclass(frozen=True, kw_only=True)
class Train(Training):
    """Train a network and test it.

    The same command on the same run folder goes on where it stopped. Values come
    from the preset, then the config file, then the command line.
    """

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
        super().__post_init__()
        _named(self, "model", "data")
        _at_least(self, "seed", 0)
        if self.seed >= 2**63:
            raise ValueError(f"seed must be below 2**63, not {self.seed}")
        _at_least(self, "devices", 1)
        _at_least(self, "workers", 0)
        _at_least(self, "checkpoint_seconds", 0)
        _one_of(self, "preset", get_args(Preset))
        _one_of(self, "precision", get_args(Precision))


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
        _at_least(self, "batch_size", 1)
        _at_least(self, "workers", 0)
        _one_of(self, "precision", get_args(Precision))


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
        _named(self, "model", "data")
        for name in ("size", "num_classes"):
            if getattr(self, name) is not None:
                _at_least(self, name, 1)
        _one_of(self, "residual", get_args(Residual))
        if self.shape and self.published:
            raise ValueError("give --shape or --published, not both")
        if self.published and (self.model, self.data) != (Cost.model, Cost.data):
            raise ValueError("a published network has its own --model and --data: leave them out")


def values(config: Any) -> dict[str, Any]:
    """The fields of a config that are set, in order."""
    pairs = ((field.name, getattr(config, field.name)) for field in fields(config))
    return {name: value for name, value in pairs if value is not None}


def _at_least(config: Any, name: str, low: float) -> None:
    value = getattr(config, name)
    if not low <= value < math.inf:
        raise ValueError(f"{name} must be at least {low}, not {value}")


def _above(config: Any, name: str, low: float) -> None:
    value = getattr(config, name)
    if not low < value < math.inf:
        raise ValueError(f"{name} must be above {low}, not {value}")


def _from_below(config: Any, name: str, low: float, high: float) -> None:
    value = getattr(config, name)
    if not low <= value < high:
        raise ValueError(f"{name} must be at least {low} and below {high}, not {value}")


def _named(config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name):
            raise ValueError(f"{name} must not be empty")


def _one_of(config: Any, name: str, known: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
