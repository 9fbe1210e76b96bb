"""The options of the commands that read a network or a run, and train nothing.

The text under each field is its ``--help``.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from ..settings import Precision, Runtime, at_least, check_fields
from .options import Count, File, Folder, Names, Numbers, Text

__all__ = ["Cost", "Evaluate", "Export", "Latency", "Report", "Status"]

Residual = Literal["auto", "pad", "project", "tied"]


@dataclass(frozen=True, kw_only=True)
class QueryOptions:
    """The options that all of these commands have in common."""

    config: File = None
    """TOML file with values of these options."""
    json: bool = False
    """Print one JSON object and nothing else."""
    debug: bool = False
    """On an error, print the traceback too; so does TAS_DEBUG=1 in the environment."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class Export(QueryOptions):
    """Write a trained network for use elsewhere: safetensors, ONNX and torch.export.

    Each file is read back and compared with the network on images of the test set.
    """

    run: Annotated[Positional[str | None], arg(metavar="RUN_DIR", help_behavior_hint="")] = None
    """Folder of a finished run of tas prune, distill or train."""
    out: Folder = None
    """Where the files go (default: RUN_DIR/export)."""
    model: Text = None
    """The unpruned network, path.py:factory, if it is one of your own: that file is run."""
    trust: bool = False
    """Run the path.py:factory that the folder names, or load its model.pt2, which can run code:
    only for a folder whose maker you trust."""
    data: Text = None
    """digits, cifar10, cifar100, folder:PATH or npz:PATH (default: the run's)."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset (default: the run's)."""
    workers: Annotated[int, at_least(0)] = 2
    """Processes that decode photos."""


@dataclass(frozen=True, kw_only=True)
class Report(QueryOptions):
    """Explain a run of tas prune, compare or sweep: report.html, one file for a browser, and a
    short version of it (summary.md, or results.md with results.csv)."""

    run: Annotated[Positional[str | None], arg(metavar="RUN_DIR", help_behavior_hint="")] = None
    """Folder of a finished run of tas prune, compare or sweep."""


@dataclass(frozen=True, kw_only=True)
class Status(QueryOptions):
    """How far a run is, from another terminal: its stage, progress, rate, time left and latest
    metrics, and whether its process is alive; for a comparison or a sweep, of all trials. It only
    reads; the run is not affected."""

    run: Annotated[Positional[str | None], arg(metavar="RUN_DIR", help_behavior_hint="")] = None
    """Folder of any run, whether it is running or not."""


@dataclass(frozen=True, kw_only=True)
class Evaluate(QueryOptions):
    """Accuracy on the test set: of a run folder, or of a network with a weights file."""

    run: Annotated[Positional[str | None], arg(metavar="RUN_DIR", help_behavior_hint="")] = None
    """Folder of a finished run, which has the network, the weights and the dataset."""
    model: Text = None
    """Name of a network, timm:NAME, torchvision:NAME, or path.py:factory, a file that is run; for a
    run folder, its unpruned network, if that is one of your own."""
    trust: bool = False
    """Run the path.py:factory that the folder names, or load its model.pt2, which can run code:
    only for a folder whose maker you trust."""
    weights: File = None
    """Weights of the network: .safetensors, or a torch file with a state dict."""
    data: Text = None
    """digits, cifar10, cifar100, folder:PATH or npz:PATH (default: the run's, else digits)."""
    data_dir: Folder = None
    """Folder that holds the files of the dataset."""
    download: bool = False
    """Download the dataset if it is missing."""
    mean: Numbers = ()
    """Mean that images are normalised with, for pixels of 0 to 1 (default: the run's, else the
    dataset's own)."""
    std: Numbers = ()
    """Standard deviation that images are normalised with, likewise."""
    image_size: Count = None
    """Height and width to which photos are resized (default: the run's, else 224)."""
    batch_size: Annotated[int, at_least(1)] = 500
    """Images per forward pass."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    precision: Precision = "32-true"
    """Arithmetic: 32-bit, or mixed with bfloat16."""
    workers: Annotated[int, at_least(0)] = 2
    """Processes that decode photos."""


@dataclass(frozen=True, kw_only=True)
class Cost(QueryOptions):
    """MACs and parameters of a network, layer by layer, exact.

    A MAC is a multiply-accumulate of a convolution or linear layer, for one image; the bias of a
    linear layer counts one per output channel, however many pixels or tokens the layer is applied
    to. The paper calls them FLOPs.
    """

    model: str = "resnet20"
    """Name of a network, timm:NAME, torchvision:NAME, or path.py:factory."""
    data: str = "digits"
    """Dataset that determines the size of the images and the number of classes."""
    image_size: Annotated[Count, arg(aliases=["--size"])] = None
    """Height and width of the images, instead of the dataset's (with 3 channels)."""
    num_classes: Count = None
    """Number of classes, instead of the dataset's."""
    leaf: Names = ()
    """Modules of the network that are kept whole, such as those that torch.fx cannot trace."""
    shape: File = None
    """JSON file with a shape of the network."""
    published: Text = None
    """A network that the paper's authors published; "list" shows them all."""
    residual: Residual = "auto"
    """How a residual add treats inputs of different widths: pad (zeros), project (1x1 convolution)
    or tied (equal widths); auto is project if published, else pad."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape and self.published:
            raise ValueError("give --shape or --published, not both")
        if self.published and (self.model, self.data) != (Cost.model, Cost.data):
            raise ValueError("a published network has its own --model and --data: leave them out")


@dataclass(frozen=True, kw_only=True)
class Latency(QueryOptions):
    """How long a network takes on this machine, layer by layer: the table that the other commands
    use with --metric latency.

    Networks of many widths are timed by node and as a whole, alternating with the unpruned one; the
    times of the nodes are then corrected so that they add up to those of whole networks.
    """

    model: str = "resnet20"
    """Name of a network, timm:NAME, torchvision:NAME, or path.py:factory."""
    data: str = "digits"
    """Dataset that determines the size of the images and the number of classes."""
    image_size: Count = None
    """Height and width of the images, instead of the dataset's (with 3 channels)."""
    num_classes: Count = None
    """Number of classes, instead of the dataset's."""
    leaf: Names = ()
    """Modules of the network that are kept whole, such as those that torch.fx cannot trace."""
    residual: Literal["pad", "project", "tied"] = "pad"
    """How a residual add treats inputs of different widths: pad (zeros), project (1x1 convolution)
    or tied (equal widths)."""
    runtime: Runtime = "torch"
    """What the network runs in."""
    latency_batch: Annotated[int, at_least(1)] = 1
    """Images at a time."""
    latency_threads: Annotated[int, at_least(1)] = 1
    """Threads of the processor."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    out: File = None
    """File of the table (default: in the cache, where the other commands find it). An existing one
    is shown, not measured again."""
    latency_machine: Text = None
    """Accept a latency table that was measured on this other machine (the name stored in the
    file)."""
