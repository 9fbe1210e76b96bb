"""How much the answers of a trained network change with its sizes, as the start of a search."""

import math
from collections.abc import Callable

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..costing.expected_cost import Expectation
from ..shape import Shape
from ..task import Classification, Task
from ..tracing.space import Space
from ..training.calibration import batch_statistics

__all__ = ["Sensitivities", "changed", "divergence", "images_to_measure", "rounds"]

MOST, LEAST = 96, 16  # images for each size
SHARE = 0.5  # of the training images, for one forward pass of all sizes together
SHARPNESS = 8.0  # by how much a logit falls if the answers change by one nat, at least
OF_ALL = 45.0  # and by how much if they change as much as with the whole shape (docs/results.md)
BLOCK = 4.0  # how much more a change counts that a missing block makes (docs/results.md)
FALL = 0.7  # the target falls to no less than this share of what it was before
BISECTIONS = 50
HIGHEST_PRICE = 100.0  # nats for the cost of the whole network


def images_to_measure(space: Space, training_images: int) -> int:
    """How many images each size is measured by: few enough that all sizes together look at no more
    than a share of the training images, where that leaves enough to measure anything.

    >>> from transformable import models
    >>> space = Space.trace(models.build("resnet20"), (3, 32, 32))
    >>> images_to_measure(space, 50_000), images_to_measure(space, 1000)
    (96, 16)
    """
    count = sum(len(sizes) for sizes in space.candidates.values())
    return max(LEAST, min(MOST, int(SHARE * training_images / max(1, count))))


def rounds(budget: Budget, cost: float) -> int:
    """In how many steps the target falls from a cost to the budget."""
    return max(1, math.ceil(math.log(budget.value / cost) / math.log(FALL)))


class Sensitivities:
    """Measures how far the answers of small networks are from those of a model in eval mode.

    `build` makes the network of a shape. `forward_images` counts the images that were passed
    through networks; `after_each` is told it before each network, and may stop the work.
    """

    def __init__(
        self,
        model: nn.Module,
        build: Callable[[Shape], nn.Module],
        space: Space,
        images: Tensor,
        fabric: Fabric,
        task: Task | None = None,
        after_each: Callable[[int], object] | None = None,
    ) -> None:
        self.build, self.space, self.fabric, self.task = build, space, fabric, task
        self.after_each = after_each
        self.images = fabric.to_device(images)
        with torch.no_grad(), fabric.autocast():
            self.answers = model(self.images).float()
        self.forward_images = len(self.images)

    def around(self, shape: Shape) -> dict[str, Tensor]:
        """For each candidate of each layer and stage, how much farther the answers are from the
        model's than with the given shape, if this size alone is changed.

        The distance is that of distillation: for classes, the divergence of softened answers.
        """
        sizes = {**shape.widths, **shape.depths}
        here = self._distance(shape)
        return {
            name: torch.stack(
                [
                    torch.zeros(())
                    if size == sizes[name]
                    else self._distance(changed(self.space, shape, name, size)) - here
                    for size in candidates
                ]
            )
            for name, candidates in self.space.candidates.items()
        }

    def logits(self, budget: Budget, shape: Shape) -> dict[str, Tensor]:
        """Logits for a search: low where the answers change much, and where the cost is high.

        What a size is worth depends on the others. So the target falls from the cost of the given
        shape to the budget in a few steps, and sizes are measured around the best shape of the step
        before. The price of the cost is such that the expected cost is that of the budget.
        """
        first = budget.cost(self.space, shape)
        count = rounds(budget, first)
        for i in range(1, count + 1):
            priced = _PricedSizes(self._weighed(shape), self.space, shape, budget)
            shape = priced.best(first * (budget.value / first) ** (i / count))
        # where answers change little, noise would decide a search that starts undecided
        return priced.logits(max(SHARPNESS, OF_ALL / max(1e-3, float(self._distance(shape)))))

    def _weighed(self, shape: Shape) -> dict[str, Tensor]:
        """What `around` measures, with more weight on blocks: what a narrower layer loses, a short
        training wins back sooner than what a missing block loses."""
        changes = self.around(shape)
        return {
            name: BLOCK * row if name in self.space.depths else row for name, row in changes.items()
        }

    def _distance(self, shape: Shape) -> Tensor:
        self.forward_images += len(self.images)
        if self.after_each is not None:
            self.after_each(self.forward_images)
        return divergence(self.build(shape), self.images, self.answers, self.fabric, self.task)


@torch.no_grad()
def divergence(
    network: nn.Module, images: Tensor, answers: Tensor, fabric: Fabric, task: Task | None = None
) -> Tensor:
    """The divergence of the network's answers to these images from the given ones, with the images'
    own statistics in its batch norms."""
    with batch_statistics(network.to(fabric.device)), fabric.autocast():
        outputs = network(images)
    return (task or Classification()).distance(outputs.float(), answers).cpu()


class _PricedSizes:
    """Changes of the answers and of the cost, weighed against each other by a price of the cost."""

    def __init__(
        self, changes: dict[str, Tensor], space: Space, shape: Shape, budget: Budget
    ) -> None:
        full = budget.cost(space, space.full)
        self.changes, self.space, self.budget = changes, space, budget
        self.costs = {
            name: torch.tensor(
                [budget.cost(space, changed(space, shape, name, size)) / full for size in sizes]
            )
            for name, sizes in space.candidates.items()
        }

    def best(self, target: float) -> Shape:
        """The best shape by the lowest price at which it costs no more than the target."""

        def shape(price: float) -> Shape:
            sums = self._sums(price)
            return self.space.shape_at({name: int(row.argmin()) for name, row in sums.items()})

        return shape(_lowest(lambda price: self.budget.cost(self.space, shape(price)) <= target))

    def logits(self, sharpness: float) -> dict[str, Tensor]:
        """Logits by the lowest price at which the expected cost is inside the budget."""
        expectation = Expectation(self.space)

        def logits(price: float) -> dict[str, Tensor]:
            return {name: -sharpness * row for name, row in self._sums(price).items()}

        def affordable(price: float) -> bool:
            rows = {name: row.double().softmax(0) for name, row in logits(price).items()}
            return bool(self.budget.expected(expectation, rows) <= self.budget.value)

        return logits(_lowest(affordable))

    def _sums(self, price: float) -> dict[str, Tensor]:
        return {name: row + price * self.costs[name] for name, row in self.changes.items()}


def changed(space: Space, shape: Shape, name: str, size: int) -> Shape:
    """The shape with another size of one layer or stage."""
    return shape.replace(**{"widths" if name in space.widths else "depths": {name: size}})


def _lowest(holds: Callable[[float], bool]) -> float:
    """The lowest price at which a condition holds that holds at all higher ones."""
    low, high = -HIGHEST_PRICE, HIGHEST_PRICE
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        (low, high) = (low, middle) if holds(middle) else (middle, high)
    return high
