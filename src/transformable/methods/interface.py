"""What every method takes and gives."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import nn

from ..costing.budget import Budget
from ..data import Dataset, stratified
from ..settings import Searching
from ..shape import Shape
from ..tracing.space import Space
from ..training.session import Session
from ..training.train import Objective, Trained, train

__all__ = ["Context", "Method", "MethodResult"]

HELD_OUT = 0.1


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """What a method makes of a network."""

    shape: Shape
    model: nn.Module
    """The small network, with the weights that the method leaves in it."""
    cost: int
    """What it costs, in the metric of the budget."""
    notes: dict[str, Any] = field(default_factory=dict)
    """What else there is to tell, as JSON."""
    each_epoch: Callable[[nn.Module], None] | None = None
    """What the network needs after each epoch of its training, if anything."""
    restore_budget: Callable[[nn.Module], int] | None = None
    """Where a shape cannot say what the network costs, because that depends on the images: brings
    the network, trained further, back to the budget, and gives its cost as it is measured."""


@dataclass(frozen=True, kw_only=True)
class Context:
    """What a method may use beside the network.

    No method sees the test set: what it is judged on while it looks for a shape, ``dataset.test``
    included, are images that are held out of the training set.
    """

    dataset: Dataset
    searching: Searching
    """How long a method may train, and how."""
    session: Session = field(default_factory=Session)
    """The seed, the devices, and the run folder where a long training is kept."""

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
        each_epoch: Callable[[nn.Module], None] | None = None,
    ) -> Trained:
        """Train a network in place, for as long as a search may."""
        return train(
            model,
            self.dataset,
            self.searching,
            self.session,
            objective=objective,
            each_epoch=each_epoch,
        )


class Method(Protocol):
    """A way to make a network smaller; the model stays as it is."""

    def __call__(
        self, model: nn.Module, space: Space, budget: Budget, context: Context
    ) -> MethodResult: ...
