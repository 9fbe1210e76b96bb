"""The target of a search: it falls from one budget to the next, and at the end of each a shape is
derived."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from torch import Tensor, nn

from ..costing.budget import Budget
from ..data import Dataset
from ..settings import Searching
from ..shape import Shape
from ..training.calibration import sample_images
from ..training.processes import average_statistics, from_first
from ..training.session import Session
from .derive import Derived, settled_shape
from .judge import judge
from .search_step import SearchStep
from .sensitivity import Sensitivities, images_to_measure

__all__ = ["FallingTarget", "Passed"]

JUDGED_ON = 512  # held-out images that shapes are compared on


@dataclass(frozen=True, kw_only=True)
class Passed:
    """A budget that the search has reached, and the result for it."""

    budget: Budget
    derived: Derived
    probabilities: dict[str, Tensor]
    network: nn.Module
    """The small network, with the weights of the supernet at that step."""
    step: int
    forward_images: int
    """Images that were evaluated without learning so far."""


class FallingTarget:
    """Aims a search at one budget after the other, the largest first; each has an equal part of the
    steps. A search with start=sensitivity measures its sizes anew at the beginning of each."""

    def __init__(
        self,
        search_step: SearchStep,
        teacher: nn.Module,
        budgets: Sequence[Budget],
        dataset: Dataset,
        settings: Searching,
        session: Session,
        stop: Callable[[int], object] | None = None,
    ) -> None:
        """``stop`` is called while sizes are measured, and may raise."""
        self.budgets = sorted(budgets, key=lambda budget: budget.value, reverse=True)
        self.found: list[Passed] = []
        self._step, self._teacher, self._dataset = search_step, teacher, dataset
        self._settings, self._session, self._stop = settings, session, stop
        self._begun = self._forward_images = 0
        parts, total = len(self.budgets), search_step.total
        ends = [round(total * i / parts) for i in range(parts + 1)]
        self._parts = [range(*pair) for pair in pairwise(ends)]

    def at(self, step: int) -> None:
        """To be called before each step and after the last: derives the shapes that are due."""
        while len(self.found) < len(self.budgets):
            if self._begun == len(self.found):
                self._begin()
            if step < self._parts[len(self.found)].stop:
                break
            self.found.append(self._derive(step))

    def _begin(self) -> None:
        self._aim(len(self.found))
        if self._settings.start == "sensitivity":
            net, space = self._step.net, self._step.net.space
            train, seed = self._dataset.train, self._session.seed
            images = sample_images(train, images_to_measure(space, len(train)), seed).images
            fabric = self._session.fabric
            task = self._dataset.task
            measured = Sensitivities(
                self._teacher, net.extract, space, images, fabric, task, self._stop
            )
            # the full sizes, where they are candidates
            first = space.shape_at({name: len(c) - 1 for name, c in space.candidates.items()})
            around = self.found[-1].derived.shape if self.found else first
            budget = self._step.budget
            # of the first process: what others measure may differ by rounding
            logits, looked_at = from_first(
                fabric, lambda: (measured.logits(budget, around), measured.forward_images)
            )
            net.set_logits(logits)
            self._forward_images += looked_at
        self._begun += 1  # last: an interrupted measurement is repeated

    def _aim(self, current: int) -> None:
        self._step.aim_at(self.budgets[current], self._parts[current])

    def _derive(self, step: int) -> Passed:
        net, budget, fabric = self._step.net, self._step.budget, self._session.fabric
        average_statistics(fabric, net)
        probabilities = {name: p.detach().cpu() for name, p in net.probabilities().items()}
        derived = settled_shape(probabilities, net.space, budget)
        if self._settings.judged:
            held_out = self._dataset.validation
            if not len(held_out):
                held_out = self._dataset.train
            images = sample_images(held_out, JUDGED_ON, self._session.seed).images
            count, seed, task = self._settings.judged, self._session.seed, self._dataset.task
            derived = judge(net, self._teacher, derived, budget, images, count, fabric, seed, task)
            self._forward_images += (count + 1) * len(images)
        derived = from_first(fabric, lambda: derived)
        return Passed(
            budget=budget,
            derived=derived,
            probabilities=probabilities,
            network=copy.deepcopy(net.extract(derived.shape)).cpu(),
            step=step,
            forward_images=self._forward_images,
        )

    def state_dict(self) -> dict[str, Any]:
        found = [
            {
                "derived": {**asdict(one.derived), "shape": one.derived.shape.to_dict()},
                "probabilities": one.probabilities,
                "weights": one.network.state_dict(),
                "step": one.step,
                "forward_images": one.forward_images,
            }
            for one in self.found
        ]
        return {"found": found, "begun": self._begun, "forward_images": self._forward_images}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        self._begun, self._forward_images = state_dict["begun"], state_dict["forward_images"]
        self.found = []
        for budget, one in zip(self.budgets, state_dict["found"], strict=False):
            shape = Shape.from_dict(one["derived"]["shape"])
            network = copy.deepcopy(self._step.net.extract(shape)).cpu()
            network.load_state_dict(one["weights"])
            self.found.append(
                Passed(
                    budget=budget,
                    derived=Derived(**{**one["derived"], "shape": shape}),
                    probabilities=one["probabilities"],
                    network=network,
                    step=one["step"],
                    forward_images=one["forward_images"],
                )
            )
        if self._begun:
            self._aim(self._begun - 1)
