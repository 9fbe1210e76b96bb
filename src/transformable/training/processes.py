"""Processes that share the work: what must be equal in all of them, and what if one ends."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..costing.latency import Latency
from ..launch import is_first_process
from .devices import mean_over_processes

__all__ = [
    "average_statistics",
    "check_same",
    "end_with_parent",
    "explained_loss",
    "first_to_speak",
    "from_first",
    "measured_by_first",
    "share_buffers",
    "share_state",
    "wait_before_killing",
]

Value = TypeVar("Value")


def from_first(fabric: Fabric, make: Callable[[], Value]) -> Value:
    """The value that the first process computes, in all processes: for values that each would
    measure a little differently. Processes that are not joined yet compute it themselves."""
    if not torch.distributed.is_initialized() or fabric.world_size == 1:
        return make()
    made = make() if fabric.global_rank == 0 else None
    return fabric.broadcast(made)  # type: ignore[return-value]


def measured_by_first(fabric: Fabric, find: Callable[[], Latency]) -> Latency:
    """The latencies that the first process finds or measures, in all processes: the others read
    what it has written, and ask it for the times of single networks."""
    latency = find() if fabric.global_rank == 0 else None
    if torch.distributed.is_initialized():
        fabric.barrier()
    latency = latency or find()
    if fabric.world_size == 1 or latency.timer is None:
        return latency
    timer = latency.timer
    return replace(latency, timer=lambda shape: from_first(fabric, lambda: timer(shape)))


def check_same(fabric: Fabric, what: str, value: bytes) -> None:
    """Raise a ValueError in all processes unless they all give the same value."""
    if fabric.world_size == 1:
        return
    number = int.from_bytes(hashlib.sha256(value).digest()[:7])
    own = torch.tensor([number], device=fabric.device)
    numbers = [torch.empty_like(own) for _ in range(fabric.world_size)]
    torch.distributed.all_gather(numbers, own)
    others = [rank for rank, theirs in enumerate(numbers) if int(theirs) != int(numbers[0])]
    if others:
        raise ValueError(
            f"{what} of process {', '.join(map(str, others))} differ from those of process 0; "
            "use the same versions, network and images on all machines"
        )


@torch.no_grad()
def average_statistics(fabric: Fabric, model: nn.Module) -> None:
    """Set the statistics of the batch norms to their means over all processes, each of which has
    seen its own part of the images."""
    if fabric.world_size == 1:
        return
    own = [
        statistic
        for norm in model.modules()
        if isinstance(norm, _BatchNorm)
        for statistic in (norm.running_mean, norm.running_var)
        if statistic is not None
    ]
    if own:
        # in float64, so that the mean of equal numbers is that number
        flat = torch.cat([statistic.double() for statistic in own])
        sizes = [len(statistic) for statistic in own]
        means = torch.split(mean_over_processes(fabric, flat), sizes)
        for statistic, mean in zip(own, means, strict=True):
            statistic.copy_(mean)


@torch.no_grad()
def share_buffers(fabric: Fabric, model: nn.Module) -> None:
    """Give all processes the same buffers: the means of the statistics of batch norms, all else
    from the first process."""
    average_statistics(fabric, model)
    if fabric.world_size > 1:
        for buffer in model.buffers():
            buffer.copy_(fabric.broadcast(buffer))


def share_state(fabric: Fabric, model: nn.Module) -> None:
    """Give the model of all processes the weights and buffers that the first one has."""
    if fabric.world_size > 1:
        model.load_state_dict(from_first(fabric, model.state_dict))


@contextmanager
def explained_loss() -> Iterator[None]:
    """Within the context, a connection that breaks because another process has ended raises a
    ValueError that says so."""
    try:
        yield
    except RuntimeError as error:
        # gloo has no type of its own
        if not isinstance(error, torch.distributed.DistError) and "gloo" not in str(error):
            raise
        raise ValueError(
            "another process of this job has ended; run the same command again to continue from "
            "the last checkpoint"
        ) from error


def first_to_speak() -> bool:
    """Whether this process is the first to report why the work ends, so that only one does."""
    if not torch.distributed.is_initialized():
        return is_first_process()
    try:
        store = torch.distributed.distributed_c10d._get_default_store()
        return bool(store.add("reasons given", 1) == 1)
    except RuntimeError:  # without torchrun, the store is gone with the first process
        return torch.distributed.get_rank() == 1


def wait_before_killing(seconds: float = 20.0) -> None:
    """To be called when Fabric has started processes. If one of them dies, Fabric kills the first
    one within five seconds; this gives it time to detect and report that itself."""
    for thread in threading.enumerate():
        if isinstance(thread, _ChildProcessObserver):
            kill = thread._terminate_all

            def wait_and_kill(kill: Callable[[], None] = kill) -> None:
                time.sleep(seconds)
                kill()

            thread._terminate_all = wait_and_kill  # type: ignore[method-assign]


def end_with_parent(seconds: float = 1.0) -> None:
    """End this process soon after the one that has started it, also while it waits for others."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(seconds)
        time.sleep(10 * seconds)  # so that it can detect and report this itself
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
