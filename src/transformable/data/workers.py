"""The processes that load images: the signals that they ignore, and how they end."""

import multiprocessing
import signal
from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader

__all__ = ["ignore_stop_signals", "loaded"]

JOIN_SECONDS = 5.0
"""How long a worker may take to end before it is killed; torch itself waits as long before that."""


def ignore_stop_signals(_: int) -> None:
    """For ``worker_init_fn``: signals often go to all processes of a job. The main process saves
    and then ends its workers, and until then it needs them."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def loaded(loader: DataLoader[Any]) -> Iterator[Any]:
    """The batches of a loader; its workers are gone afterwards, whatever they were doing."""
    before = set(multiprocessing.active_children())
    batches = iter(loader)
    workers = set(multiprocessing.active_children()) - before
    try:
        yield from batches
    finally:
        del batches  # asks the workers to end, and waits a while for them
        for worker in workers:
            if worker.is_alive():
                worker.kill()
                worker.join(JOIN_SECONDS)
