"""What a plan will cost: MACs x images x epochs, turned into time by a measured training step."""

from collections.abc import Sequence
from dataclasses import dataclass

from lightning_fabric import Fabric
from torch import nn

from ..costing.cost import macs
from ..data import Dataset
from ..settings import Training
from ..tracing.space import Space
from ..training.dry_run import training_phases
from ..training.probe import probe
from ..training.train import preserve_random_state
from .plan import Batch
from .scales import Scale

__all__ = ["Pace", "Work", "batch_epochs", "measure_pace", "total_seconds"]

FREE = ("uniform", "pfec", "fpgm", "torch-pruning")
"""Methods that choose without training anything."""
FORWARD = 1 / 3
"""A forward pass alone, as a share of one forward and backward."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How fast the unpruned network learns here."""

    macs: int
    """MACs of one image."""
    images: int
    """Images of one epoch."""
    seconds: float
    """Seconds for one image, forward and backward."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Runs of one kind, and how many of them are done."""

    study: str
    what: str
    runs: int
    done: int
    epochs: float
    """Length of a run, in epochs of the unpruned network: one of half its MACs counts half."""
    pace: Pace

    @property
    def seconds(self) -> float:
        """What is left, if one run is done after the other."""
        return (self.runs - self.done) * self.epochs * self.pace.images * self.pace.seconds


def total_seconds(works: Sequence[Work], jobs: int) -> float:
    """The time of all runs that are left, ``jobs`` of them at a time, on processors of their own.

    >>> pace = Pace(macs=1, images=100, seconds=0.01)
    >>> total_seconds([Work(study="a", what="b", runs=3, done=1, epochs=5, pace=pace)], 2)
    5.0
    """
    return sum(work.seconds for work in works) / jobs


def batch_epochs(batch: Batch, method: str, scale: Scale, data: str) -> float:
    """The epochs of one trial: its search, and a training for each kind of transfer."""
    share, student = float(batch.budget), scale.distilling(data).epochs
    search = 0 if method in FREE else scale.searching(data).epochs
    answers = sum("kd" in transfer for transfer in batch.transfers)
    return search + student * (share * len(batch.transfers) + FORWARD * answers)


def measure_pace(model: nn.Module, dataset: Dataset, settings: Training, fabric: Fabric) -> Pace:
    """Do a few training steps on a copy of the network."""
    space = Space.trace(model, dataset.info.input_shape)
    with preserve_random_state(fabric):
        seen = probe(
            lambda: training_phases("training", model, dataset, settings, fabric)[:1],
            dataset.train,
            fabric.device,
        )
    return Pace(
        macs=macs(space, space.full),
        images=len(dataset.train),
        seconds=seen.step_seconds["training"] / settings.images_at_once,
    )
