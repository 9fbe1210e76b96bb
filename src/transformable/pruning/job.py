"""A pruning job: its inputs, and the checks before anything is computed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from ..costing.budget import BandError, Budget
from ..data import Dataset
from ..methods import Method
from ..networks.blueprint import Blueprint
from ..networks.speed import LARGE_BATCH
from ..searching.derive import check_possible
from ..searching.search import images_of
from ..settings import Distilling, Searching, Training, plain_values
from ..slimming.slim import check_same_network
from ..tracing.space import Space
from ..training.checks import check_task, trainable
from ..training.session import Session
from ..training.train import check_steps

__all__ = ["PruningJob"]

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class PruningJob:
    """A network, its images and a budget, and how a small network is found and trained."""

    model: nn.Module
    """The unpruned network; it is trained in place unless it is trained already."""
    trained: bool
    dataset: Dataset
    space: Space
    budget: Budget
    method: Method
    method_name: str
    training: Training
    """The training of the unpruned network."""
    searching: Searching
    distilling: Distilling
    """The training of the small network."""
    blueprint: Blueprint
    source: Mapping[str, Any] = field(default_factory=dict)
    """Where the network and the images come from, as plain values: model, data, seed and so on."""
    command: str = ""
    """The command line, to be shown in the report."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """Where the run folders "teacher" and "search" are, if not in that of the job."""
    wider: Sequence[float] = ()
    """Tolerances that are tried, one after the other, where a method finds nothing inside the band
    of the budget."""
    shared_search: Path | None = None
    """The run folder of a search that serves several jobs, one for each of ``budgets``."""
    budgets: Sequence[Budget] = ()
    passes: float | None = None
    """Passes over the training images in all: the small network is trained with those that the
    method leaves (None: for the epochs of its settings)."""
    export: bool = True
    """Whether the small network is also written for use without this package."""

    def student_epochs(self, spent: float, before: float = 0.0) -> int:
        """How many epochs the small network is trained after a method that has spent these passes.

        If the method has trained it for `before` epochs, the first is the rest of one of them.
        """
        if self.passes is None:
            return self.distilling.epochs
        return max(1, round(self.passes - spent + before % 1))

    @property
    def large_batch(self) -> int:
        """The images of a large batch when the networks are timed: fewer where a batch has to be
        trained in parts, because memory is scarce then."""
        parts = self.distilling.accumulate > 1
        return min(LARGE_BATCH, self.distilling.images_at_once) if parts else LARGE_BATCH

    def in_band(self, find: Callable[[Budget], Found]) -> Found:
        """What ``find`` returns for the budget, or else for the narrowest wider band in which it
        finds something."""
        *first, last = (self.budget, *(self.budget.within(tolerance) for tolerance in self.wider))
        for band in first:
            try:
                return find(band)
            except BandError:
                continue
        return find(last)

    def settings(self, **own: Any) -> dict[str, Any]:
        """The settings of the run folder of one step: the source, and the step's own settings.

        A dataclass among them becomes a section of its fields.
        """
        plain = {
            name: plain_values(value) if hasattr(value, "__dataclass_fields__") else value
            for name, value in own.items()
        }
        return {**self.source, **plain}

    def check(self, session: Session) -> None:
        """Refuse what cannot be done before anything is computed."""
        info = self.dataset.info
        check_task(self.model, self.dataset)
        trainable(self.model.parameters())
        check_same_network(self.model, self.space)
        if self.space.input_shape != info.input_shape:
            raise ValueError(
                f"the space was traced for images of {self.space.input_shape}, and those of "
                f"{info.name} are {info.input_shape}"
            )
        check_possible(self.space, self.budget)
        world = session.fabric.world_size
        for settings, split in (
            (self.training, self.dataset.train),
            (self.distilling, self.dataset.train),
            *(
                (self.searching, part)
                for part in images_of(self.dataset.train, self.searching, session.seed)
            ),
        ):
            check_steps(split, settings.batch_size, world)
            self.dataset.task.objective(settings.label_smoothing)  # a user's own task refuses it
