"""Judging a pruned network before it is trained: a sample of images, calibrated batch norms."""

from collections.abc import Iterable

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..data import Split, TensorSplit
from ..seeds import generator
from ..training.evaluate import evaluate
from .interface import Context

__all__ = ["CalibratedEvaluator", "recalibrate", "sample_images"]

BATCH = 64


class CalibratedEvaluator:
    """Judges pruned networks before they are trained: recalibrates their batch norms on a sample of
    the training images, and evaluates them on a sample of the held-out ones."""

    def __init__(self, context: Context, *, calibration: int, held_out: int) -> None:
        self._session = context.session
        seed = context.session.seed
        self._calibration = sample_images(context.dataset.train, calibration, seed)
        self.held_out = sample_images(context.dataset.validation, held_out, seed)

    def recalibrate(self, network: nn.Module) -> nn.Module:
        # shuffled batches are whole ones: a batch norm fails on a last batch of one image
        batches = self._calibration.shuffled(BATCH, seed=self._session.seed, epoch=0)
        return recalibrate(network, (x for x, _ in batches), self._session.fabric)

    def evaluate(self, network: nn.Module) -> dict[str, float]:
        return evaluate(self.recalibrate(network), self.held_out, fabric=self._session.fabric)


def sample_images(split: Split, count: int, seed: int) -> TensorSplit:
    """A random sample of a split, in memory and without augmentation."""
    picked = torch.from_numpy(generator("some", seed).permutation(len(split))[:count])
    batches = list(split.subset(picked).ordered(BATCH))
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    channels = images.shape[1]
    zeros, ones = torch.zeros(channels), torch.ones(channels)
    return TensorSplit(images=images, labels=labels, mean=zeros, std=ones, padding=0, flips=False)


def recalibrate(network: nn.Module, batches: Iterable[Tensor], fabric: Fabric) -> nn.Module:
    """Set the statistics of the batch norms to those of these images, in place."""
    norms = [m for m in network.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    momenta = [norm.momentum for norm in norms]
    network.to(fabric.device).eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.train()
        norm.momentum = None  # the mean over all batches
    with torch.no_grad(), fabric.autocast():
        for x in batches:
            network(fabric.to_device(x))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    return network.eval()
