"""The devices, and the values that processes exchange."""

import inspect
import logging
from collections.abc import Sequence
from typing import Any

import torch
from lightning_fabric import Fabric
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..launch import is_under_torchrun
from ..settings import Precision

__all__ = [
    "average_gradients",
    "devices_in_turn",
    "make_fabric",
    "max_over_processes",
    "mean_over_processes",
    "sum_over_processes",
]

_NEW_NAME = "forward_sync_buffers" in inspect.signature(DistributedDataParallel).parameters
# torch warns of the old name
_OWN_BUFFERS: Any = {"forward_sync_buffers" if _NEW_NAME else "broadcast_buffers": False}

# it logs every process that it starts
logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


def make_fabric(
    device: str = "auto", *, devices: int = 1, nodes: int = 1, precision: Precision = "32-true"
) -> Fabric:
    """A Fabric on ``device`` (auto, cpu, mps, cuda or cuda:INDEX), over one or more of its kind:
    ``devices`` in all, on ``nodes`` machines. It has to be launched if there are several.

    >>> make_fabric("cpu").device
    device(type='cpu')
    >>> make_fabric("gpu")
    Traceback (most recent call last):
    ValueError: unknown device 'gpu'; use auto, cpu, mps, cuda or cuda:INDEX
    """
    (kind, colon, index) = device.partition(":")
    known = kind in ("auto", "cpu", "mps", "cuda")
    if not known or (colon and not (kind == "cuda" and index.isdigit())):
        raise ValueError(f"unknown device {device!r}; use auto, cpu, mps, cuda or cuda:INDEX")
    if colon and devices > 1:
        raise ValueError(f"device {device!r} is one device; use cuda for {devices} of them")
    if device == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device 'mps' is not on this machine; use auto or cpu")
    needed = max(devices // nodes, int(index) + 1 if colon else 1)
    if kind == "cuda" and (count := torch.cuda.device_count()) < needed:
        raise ValueError(
            f"device {device!r} needs {needed} CUDA devices, this machine has {count}; use cpu"
        )
    chosen: Any = [int(index)] if colon else devices // nodes
    return Fabric(
        accelerator=kind,
        devices=chosen,
        num_nodes=nodes,
        # each process keeps the batch statistics of its own images; processes.py averages them
        strategy=DDPStrategy(**_OWN_BUFFERS) if devices > 1 else "auto",
        precision=precision,
        # of the launchers that Fabric would detect, only torchrun is used
        plugins=None if is_under_torchrun() else LightningEnvironment(),
    )


def devices_in_turn(device: str, count: int) -> list[str]:
    """The devices of ``count`` trials that run at the same time: the CUDA devices of this machine
    in turn, unless one of them is named.

    >>> devices_in_turn("cpu", 2)
    ['cpu', 'cpu']
    """
    there = torch.cuda.device_count() if device in ("auto", "cuda") else 0
    return [f"cuda:{number % there}" if there > 1 else device for number in range(count)]


def max_over_processes(fabric: Fabric, value: int) -> int:
    """The largest value of all processes; all of them must call this at the same point."""
    if fabric.world_size == 1:
        return value
    values = torch.tensor(value, device=fabric.device)
    torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX)
    return int(values)


def sum_over_processes(fabric: Fabric, values: Tensor) -> Tensor:
    """The sum over all processes, in place."""
    if fabric.world_size > 1:
        torch.distributed.all_reduce(values)
    return values


def mean_over_processes(fabric: Fabric, values: Tensor) -> Tensor:
    """The mean over all processes, in place."""
    if fabric.world_size > 1:
        sum_over_processes(fabric, values).div_(fabric.world_size)
    return values


def average_gradients(fabric: Fabric, parameters: Sequence[nn.Parameter]) -> None:
    """Set the gradients to their means over all processes: one exchange for all of them."""
    own = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if fabric.world_size == 1 or not own:
        return
    means = mean_over_processes(fabric, torch.cat([gradient.flatten() for gradient in own]))
    parts = torch.split(means, [gradient.numel() for gradient in own])
    for gradient, mean in zip(own, parts, strict=True):
        gradient.copy_(mean.view_as(gradient))
