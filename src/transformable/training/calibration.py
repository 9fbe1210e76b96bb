"""Samples of images, and batch norm statistics from a sample."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..data import Split, TensorSplit
from ..data.dataset import Batches
from ..seeds import generator

__all__ = [
    "batch_statistics",
    "recalibrate",
    "sample_images",
    "sampled_batches",
    "whole_batches",
]

BATCH = 64


def sample_images(split: Split, count: int, seed: int) -> TensorSplit:
    """A random sample of a split, in memory and without augmentation."""
    batches = list(sampled_batches(split, count, seed, BATCH))
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    channels = images.shape[1]
    zeros, ones = torch.zeros(channels), torch.ones(channels)
    whole = TensorSplit(images=images, labels=labels, mean=zeros, std=ones, padding=0, flips=False)
    return replace(whole, memory_format=split.memory_format)


def sampled_batches(split: Split, count: int, seed: int, size: int) -> Batches:
    """The same sample, batch by batch: only one batch is in memory."""
    picked = torch.from_numpy(generator("some", seed).permutation(len(split))[:count])
    return split.subset(picked).ordered(size)


def whole_batches(split: Split, count: int, seed: int, size: int) -> Batches:
    """Such a sample without its last batch, if that is smaller than the others: a batch norm fails
    on one image."""
    count = min(count, len(split))
    return sampled_batches(split, max(size, count - count % size), seed, size)


@contextmanager
def batch_statistics(network: nn.Module) -> Iterator[None]:
    """Within the context, batch norms use the statistics of each batch, and all else is in
    evaluation mode; the running statistics are not changed."""
    norms = [m for m in network.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]
    network.eval()
    for norm in norms:
        norm.track_running_stats, norm.training = False, True
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats, norm.training = True, False


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
