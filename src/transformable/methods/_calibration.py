"""Evaluate a pruned network before it is trained, with recalibrated batch norms."""

from torch import nn

from ..training.calibration import BATCH, recalibrate, sample_images
from ..training.evaluate import evaluate
from .interface import Context

__all__ = ["CalibratedEvaluator"]


class CalibratedEvaluator:
    """Evaluates pruned networks before they are trained: recalibrates their batch norms on a sample
    of the training images, and tests them on a sample of the held-out ones."""

    def __init__(self, context: Context, *, calibration: int, held_out: int) -> None:
        self._session = context.session
        seed = context.session.seed
        self._calibration = sample_images(context.dataset.train, calibration, seed)
        self.held_out = sample_images(context.dataset.validation, held_out, seed)
        self._seen, self._context = 0, context

    @property
    def passes(self) -> float:
        """The passes that were spent so far."""
        return self._context.forward_passes(self._seen)

    def recalibrate(self, network: nn.Module) -> nn.Module:
        self._seen += len(self._calibration)
        # shuffled batches are whole ones: a batch norm fails on a last batch of one image
        batches = self._calibration.shuffled(BATCH, seed=self._session.seed, epoch=0)
        return recalibrate(network, (x for x, _ in batches), self._session.fabric)

    def evaluate(self, network: nn.Module) -> dict[str, float]:
        self._seen += len(self.held_out)
        network, task = self.recalibrate(network), self._context.dataset.task
        return evaluate(network, self.held_out, fabric=self._session.fabric, task=task)
