"""The options of tas reproduce. The text under each field is its ``--help``."""

from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import Positional, arg

from ..reproducing.scales import FIGURE4, STEPS, TABLES, ScaleName
from ..settings import MILLION, Precision, at_least, check_fields, plain_values
from ..spelling import nearest
from .options import Count, Folder, Text
from .pruning_options import split
from .query_options import QueryOptions

__all__ = ["Reproduce"]

TARGETS = (*TABLES, FIGURE4)
"""What "all" stands for."""


@dataclass(frozen=True, kw_only=True)
class Reproduce(QueryOptions):
    """The paper's tables 1 to 4 and its figure 4, with our figures beside the paper's.

    The runs are planned, their cost is shown, and then those that are not done yet are run: one
    teacher for a network and a dataset, one search for all kinds of transfer. The same command
    continues where it stopped; other tables, networks, datasets and more seeds may be added in the
    same folder.

    Scale paper: the networks, datasets and schedules of the paper. Scale small: ResNet-32 in tables
    one and two, ResNet-20 in table 3 and figure 4, ResNet-18 in table 4; CIFAR averaged to 16x16,
    in table 4 CIFAR-10 instead of ImageNet; 6 epochs for an unpruned network, 2 for a search (8 in
    figure 4), 4 for a small network; the methods that the paper has. Scale smoke: ResNet-20 on
    digits, one epoch of everything, to see that it runs.
    """

    what: Annotated[Positional[str | None], arg(metavar="TABLE", help_behavior_hint="")] = None
    """table1, table2, table3, table4, figure4, or all; table2-steps is the time and memory of a
    search step alone, which need no training."""
    scale: ScaleName = "small"
    """paper (for GPUs), small (an evening on two cores) or smoke (minutes; its figures mean
    nothing)."""
    seeds: Annotated[int, at_least(1), MILLION] = 1
    """How many seeds, counted from --seed; a teacher is trained with the first."""
    dry_run: bool = False
    """Print the plan with an estimate of its time, then exit."""
    data: Annotated[Text, arg(metavar="A,B,..")] = None
    """Datasets of tables 1 to 3 and figure 4 instead of the scale's: cifar10:16, digits."""
    data_dir: Folder = None
    """Folder that holds the files of the datasets."""
    download: bool = False
    """Download a dataset if it is missing."""
    photos: Text = None
    """The images of table 4: folder:PATH with ImageNet, or other photos."""
    image_size: Count = None
    """Height and width to which these photos are resized (default: 224)."""
    models: Annotated[Text, arg(metavar="A,B,..")] = None
    """These networks instead of the scale's."""
    out: Folder = None
    """Folder of the runs and tables (default: runs/reproduce-SCALE)."""
    seed: Annotated[int, at_least(0), MILLION] = 0
    """The first seed."""
    jobs: Annotated[int, at_least(1)] = 1
    """Runs at the same time; they share the processors, and take the GPUs in turn."""
    device: str = "auto"
    """auto, cpu, mps, cuda or cuda:INDEX."""
    precision: Precision = "32-true"
    """Arithmetic: 32-bit, or mixed with bfloat16."""
    workers: Annotated[int, at_least(0)] = 2
    """Processes that decode photos."""
    checkpoint_seconds: Annotated[float, at_least(0)] = 30.0
    """Longest time between two checkpoints; there is one after each epoch too."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.what not in (None, "all", STEPS, *TARGETS):
            hint = nearest(str(self.what), ["all", STEPS, *TARGETS])
            raise ValueError(f"there is no {self.what!r} to reproduce; {hint}")

    def targets(self) -> list[str]:
        """The tables, and the figure, that are asked for."""
        if self.what is None:
            raise ValueError(f"nothing to reproduce: give {', '.join(TARGETS)} or all")
        return list(TARGETS) if self.what == "all" else [self.what]

    def networks(self) -> list[str]:
        """The networks that are asked for; none if they are those of the scale."""
        return split(self.models or "")

    def settings(self) -> dict[str, Any]:
        """The content of config.toml: what all runs in the folder have in common."""
        names = ("scale", "seed", "precision")
        values = plain_values(self)
        return {"command": "reproduce", **{name: values[name] for name in names}}
