"""How much the answers of a trained network change when one of its sizes is made smaller."""

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.calibration import recalibrate
from ..training.distill import kd_loss

__all__ = ["sensitivities"]

MOST, LEAST = 256, 32


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

    @torch.no_grad()
    def divergence(network: nn.Module, answers: Tensor) -> Tensor:
        logits = recalibrate(network, [images], fabric)(images)
        return kd_loss(logits.new_zeros(()), logits.float(), answers, weight=1.0).cpu()

    with torch.no_grad():
        answers = model.to(fabric.device).eval()(images).float()
    unchanged = divergence(slim(model, space, space.full), answers)
    found = {}
    for name, sizes in space.candidates.items():
        row = torch.zeros(len(sizes))
        for i, size in enumerate(sizes):
            if size != full[name]:
                part = "widths" if name in space.widths else "depths"
                shape = space.full.replace(**{part: {name: size}})
                row[i] = (divergence(slim(model, space, shape), answers) - unchanged).clamp(min=0)
        found[name] = row
    return found
