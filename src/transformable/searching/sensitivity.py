"""How much the answers of a trained network change when one of its sizes is made smaller."""

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..costing.expected_cost import Expectation
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.calibration import batch_statistics
from ..training.distill import kd_loss

__all__ = ["first_logits", "sensitivities"]

MOST, LEAST = 128, 32
SHARPNESS = 8.0  # by how much a logit falls if the answers change by one nat
PRICES = 60  # steps of the bisection for the price of the cost


def sensitivities(
    model: nn.Module, space: Space, images: Tensor, fabric: Fabric
) -> dict[str, Tensor]:
    """For each candidate of each layer and stage, the divergence between the answers of the network
    and its answers with that one size changed; what recalibrated batch norms alone change is not
    counted.

    One small network is built and run for each candidate, on fewer images if there are many.
    """
    count = sum(len(sizes) - 1 for sizes in space.candidates.values())
    images = fabric.to_device(images[: max(LEAST, min(MOST, 40_000 // max(1, count)))])
    full = {**space.full.widths, **space.full.depths}

    with torch.no_grad():
        answers = model.to(fabric.device).eval()(images).float()

    def changed(name: str, size: int) -> Tensor:
        part = "widths" if name in space.widths else "depths"
        network = slim(model, space, space.full.replace(**{part: {name: size}}))
        return divergence(network, images, answers, fabric)

    unchanged = divergence(slim(model, space, space.full), images, answers, fabric)
    found = {}
    for name, sizes in space.candidates.items():
        row = [0.0 if s == full[name] else changed(name, s) - unchanged for s in sizes]
        found[name] = torch.tensor(row).clamp(min=0)
    return found


@torch.no_grad()
def divergence(network: nn.Module, images: Tensor, answers: Tensor, fabric: Fabric) -> Tensor:
    """The softened divergence of the network's answers to these images from the given ones, with
    the images' own statistics in its batch norms."""
    with batch_statistics(network.to(fabric.device)), fabric.autocast():
        logits = network(images)
    return kd_loss(logits.new_zeros(()), logits.float(), answers, weight=1.0).cpu()


def first_logits(found: dict[str, Tensor], space: Space, budget: Budget) -> dict[str, Tensor]:
    """Logits for a search: low where the answers change much, and where the cost is high, by a
    price for the cost at which the expected cost is that of the budget."""
    full = budget.cost(space, space.full)
    costs = {
        name: torch.tensor(
            [
                budget.cost(
                    space,
                    space.full.replace(
                        **{"widths" if name in space.widths else "depths": {name: size}}
                    ),
                )
                / full
                for size in sizes
            ]
        )
        for name, sizes in space.candidates.items()
    }
    expectation = getattr(Expectation(space), budget.metric)

    def logits(price: float) -> dict[str, Tensor]:
        return {name: -SHARPNESS * (row + price * costs[name]) for name, row in found.items()}

    low, high = -100.0, 100.0
    for _ in range(PRICES):
        price = (low + high) / 2
        chances = {name: row.double().softmax(0) for name, row in logits(price).items()}
        if float(expectation(chances)) > budget.value:
            low = price
        else:
            high = price
    return logits(high)
