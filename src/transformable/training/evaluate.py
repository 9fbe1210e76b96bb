"""Accuracy and loss of a network on a split."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Split
from .devices import make_fabric, sum_over_processes

__all__ = ["evaluate"]


def evaluate(
    model: nn.Module,
    split: Split,
    *,
    batch_size: int = 500,
    fabric: Fabric | None = None,
    after_batch: Callable[[int], None] | None = None,
) -> dict[str, float]:
    """Top-1 and top-5 accuracy as fractions, mean cross-entropy, and the number of images.

    With fewer than five classes, top-5 is over all of them. ``after_batch`` is called with the
    number of batches done. Several processes share the images, and all get the same result.

    >>> from transformable.data import from_tensors
    >>> images = torch.ones(4, 1, 2, 2), torch.tensor([0, 0, 0, 1])
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> _ = net[1].weight.data.zero_(), net[1].bias.data.copy_(torch.tensor([9.0, 0.0]))
    >>> evaluate(net, from_tensors(images, images, validation=0).test)["accuracy"]
    0.75
    """
    fabric = fabric or make_fabric()
    model.to(fabric.device)
    was_training = model.training
    model.eval()
    exact = torch.float32 if fabric.device.type == "mps" else torch.float64
    sums = torch.zeros(4, dtype=exact, device=fabric.device)
    try:
        with torch.no_grad():
            if fabric.world_size > 1:
                # all use the batch statistics of the first process, which are those that are saved
                for buffer in model.buffers():
                    buffer.copy_(fabric.broadcast(buffer))
            batches = split.ordered(batch_size, rank=fabric.global_rank, world=fabric.world_size)
            for done, (x, y) in enumerate(batches, start=1):
                (x, y) = fabric.to_device((x, y))
                with fabric.autocast():
                    logits = model(x)
                sums += _sums(logits.float(), y).to(exact)
                if after_batch is not None:
                    after_batch(done)
    finally:
        model.train(was_training)
    (loss, top1, top5, n) = sum_over_processes(fabric, sums).tolist()
    if n == 0:
        raise ValueError("there are no images to evaluate on")
    return {"accuracy": top1 / n, "top5": top5 / n, "loss": loss / n, "n": int(n)}


def _sums(logits: Tensor, y: Tensor) -> Tensor:
    """Sums over a batch: loss, top-1 right, top-5 right, and images."""
    guesses = logits.topk(min(5, logits.shape[1]), dim=1).indices
    right = guesses == y[:, None]
    loss = F.cross_entropy(logits, y, reduction="sum")
    return torch.stack([loss, right[:, 0].sum(), right.sum(), torch.tensor(len(y)).to(loss)])
