"""The devices that the work runs on, and what its processes exchange."""

import logging
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor

from ..settings import Precision

__all__ = ["add_up", "agree", "average", "make_fabric"]

# it tells of every process it starts
logging.getLogger("lightning_fabric").setLevel(logging.WARNING)


def make_fabric(
    device: str = "auto", *, devices: int = 1, precision: Precision = "32-true"
) -> Fabric:
    """A Fabric on ``device`` (auto, cpu, mps, cuda or cuda:INDEX), over one or more of its kind.

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
    _check_present(device, int(index) if colon else 0, devices)
    chosen: Any = [int(index)] if colon else devices
    strategy = "ddp" if devices > 1 else "auto"
    return Fabric(accelerator=kind, devices=chosen, strategy=strategy, precision=precision)


def agree(fabric: Fabric, wish: int) -> int:
    """The largest wish of all processes; each must ask at the same point."""
    if fabric.world_size == 1:
        return wish
    wishes = torch.tensor(wish, device=fabric.device)
    torch.distributed.all_reduce(wishes, op=torch.distributed.ReduceOp.MAX)
    return int(wishes)


def add_up(fabric: Fabric, own: Tensor) -> list[float]:
    """The sums over all processes, of one-dimensional values."""
    if fabric.world_size > 1:
        torch.distributed.all_reduce(own)
    sums: list[float] = own.tolist()
    return sums


def average(fabric: Fabric, own: Tensor) -> Tensor:
    """The mean over all processes."""
    if fabric.world_size > 1:
        torch.distributed.all_reduce(own)
        own /= fabric.world_size
    return own


def _check_present(device: str, index: int, devices: int) -> None:
    if device == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device 'mps' is not on this machine; use auto or cpu")
    needed = max(devices, index + 1)
    if device.startswith("cuda") and (count := torch.cuda.device_count()) < needed:
        raise ValueError(
            f"device {device!r} needs {needed} CUDA devices, this machine has {count}; use cpu"
        )
