"""The interface of all methods: their arguments and results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Self

from torch import nn

from ..costing.budget import Budget
from ..data import Dataset, stratified
from ..settings import Searching
from ..shape import Shape
from ..slimming.slim import slim
from ..slimming.sort_channels import sort_channels
from ..task import Objective
from ..tracing.space import Space
from ..training.distill import student_network
from ..training.session import Session
from ..training.train import Trained, minimise

__all__ = ["Context", "Method", "MethodResult", "slimmed"]

HELD_OUT = 0.1  # share of the training images that is held out if there are no validation images


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """The small network that a method makes."""

    shape: Shape
    """The sizes of its layers and stages."""
    model: nn.Module
    """The small network, with the weights that its training starts from."""
    cost: int
    """Its cost, in the metric of the budget; a latency is in nanoseconds."""
    time: int | None = None
    """Its time in nanoseconds, if the budget or a limit beside it is a latency and the method has
    measured its networks until one was inside the band, as far as there is one."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Further results of the method, as JSON values."""
    passes: float = 0.0
    """Passes over the training images, forward and backward, that the method has spent, whichever
    network they went through; one that is forward only counts a third. The outputs of the unpruned
    network in distillation are not counted: they are the same for all."""
    epochs_before: float = 0.0
    """Epochs of the network's training that the method has done already."""
    after_epoch: Callable[[nn.Module], None] | None = None
    """To be called after each epoch of the network's training."""
    restore_budget: Callable[[nn.Module, Budget], int] | None = None
    """If the cost depends on the images and not only on the shape: brings the trained network back
    into the band of a budget, and returns its measured cost."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a method may use besides the network.

    No method sees the test set: ``dataset.test`` is the validation split here, which is held out of
    the training images if the dataset has none.
    """

    dataset: Dataset
    """The training images, and those that a method may evaluate networks on."""
    searching: Searching
    """How long, and with which settings, a method may train."""
    session: Session = field(default_factory=Session)
    """The seed, the devices, and the run folder in which a long training is kept."""
    epochs_after: int = 0
    """For how many epochs the small network will be trained afterwards."""
    budgets: Sequence[Budget] = ()
    """All budgets that one search is to serve, that of the call among them; the session is then the
    same for all of them, so that the search is done once and continued from its end."""

    def __post_init__(self) -> None:
        dataset = self.dataset
        if not len(dataset.validation):
            rest, part = stratified(dataset.train.labels, HELD_OUT, self.session.seed)
            train, validation = dataset.train.subset(rest), dataset.train.subset(part)
            dataset = replace(dataset, train=train, validation=validation)
        object.__setattr__(self, "dataset", replace(dataset, test=dataset.validation))

    def train(
        self,
        model: nn.Module,
        *,
        objective: Objective | None = None,
        after_epoch: Callable[[nn.Module], None] | None = None,
    ) -> Trained:
        """Train a network in place, for the epochs of a search."""
        plain = self.dataset.task.objective(self.searching.label_smoothing)
        return minimise(
            objective or plain,
            model,
            self.dataset,
            self.searching,
            self.session,
            after_epoch=after_epoch,
        )

    def forward_passes(self, images: float) -> float:
        """The passes to count for images that only went forward through a network."""
        return images / len(self.dataset.train) / 3

    def shortened(self, epochs: float) -> Self:
        """The same context for a training of this many epochs: if that is not a whole number, of
        the next one, with a part of the images."""
        whole, train = ceil(epochs), self.dataset.train
        if epochs < whole:
            part = stratified(train.labels, epochs / whole, self.session.seed)[1]
            train = train.subset(part)
        searching = replace(
            self.searching,
            epochs=whole,
            hold_epochs=min(self.searching.hold_epochs, whole / 2),
        )
        return replace(self, dataset=replace(self.dataset, train=train), searching=searching)

    def slim_sorted(self, model: nn.Module, space: Space, shape: Shape) -> nn.Module:
        """The small network of a shape, with the most important channels of each layer."""
        return self.slim(sort_channels(model, space), space, shape)

    def slim(self, model: nn.Module, space: Space, shape: Shape) -> nn.Module:
        """The small network of a shape; the seed decides new channels, if there are any."""
        seed = self.session.seed
        return student_network(model, space, shape, transfer="init", sort=False, seed=seed)


def slimmed(
    model: nn.Module, space: Space, budget: Budget, shape: Shape, *, passes: float = 0.0
) -> MethodResult:
    """The result that keeps the channels of a shape with their weights in ``model``."""
    small, cost = slim(model, space, shape), budget.cost(space, shape)
    return MethodResult(shape=shape, model=small, cost=cost, passes=passes)


Method = Callable[[nn.Module, Space, Budget, Context], MethodResult]
"""A method to prune a network; it must not change the network that it is given."""
