"""How much a trained network still gets wrong, which is room for what is trained from it."""

from lightning_fabric import Fabric
from torch import nn

from ..data import Dataset
from .calibration import BATCH, sample_images
from .evaluate import evaluate

__all__ = ["room_to_learn"]

SAMPLE = 512  # training images
MANY = 0.12  # of them; docs/results.md says how it was found
LEVELS = 4


def room_to_learn(network: nn.Module, dataset: Dataset, fabric: Fabric) -> float:
    """From 0, for a network that knows its training images by heart, to 1, for one that gets an
    eighth of them wrong.

    In four steps, so that a rounding error does not change a training. All processes of a fabric
    must call it. Without classes it is 0.
    """
    if "accuracy" not in dataset.task.scores:
        return 0.0
    sample = sample_images(dataset.train, SAMPLE, 0)
    scores = evaluate(network, sample, batch_size=BATCH, fabric=fabric, task=dataset.task)
    return round(LEVELS * min(1.0, (1 - scores["accuracy"]) / MANY)) / LEVELS
