"""How much a network gets right: what it still gets wrong is room for what is trained from it."""

from lightning_fabric import Fabric
from torch import nn

from ..data import Dataset
from .calibration import BATCH, sample_images
from .evaluate import evaluate

__all__ = ["looks_trained", "room_to_learn"]

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
    wrong = 1 - _accuracy_on_sample(network, dataset, fabric)
    return round(LEVELS * min(1.0, wrong / MANY)) / LEVELS


def looks_trained(network: nn.Module, dataset: Dataset, fabric: Fabric) -> bool:
    """Whether a network gets far more training images right than by always naming one class: more
    than half of those that are left then."""
    if "accuracy" not in dataset.task.scores:
        return False
    labels = dataset.train.labels
    most_frequent = float(labels.bincount().max()) / len(labels)
    return _accuracy_on_sample(network, dataset, fabric) > (1 + most_frequent) / 2


def _accuracy_on_sample(network: nn.Module, dataset: Dataset, fabric: Fabric) -> float:
    sample = sample_images(dataset.train, SAMPLE, 0)
    scores = evaluate(network, sample, batch_size=BATCH, fabric=fabric, task=dataset.task)
    return scores["accuracy"]
