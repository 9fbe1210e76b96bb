"""Processes that load images: what they ignore, and that they end."""

import multiprocessing
import os
import signal
import time

import pytest
from torch.utils.data import DataLoader, Dataset, _utils

from transformable.data.workers import ignore_stop_signals, loaded


class Stuck(Dataset[int]):
    """The first item is there at once, the next one not."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        if index:
            time.sleep(60)
        return os.getpid()


def test_a_worker_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_utils, "MP_STATUS_CHECK_INTERVAL", 0.2)  # how long torch waits for it
    loader = DataLoader(Stuck(), num_workers=1, worker_init_fn=ignore_stop_signals)
    before = set(multiprocessing.active_children())
    batches = loaded(loader)
    [worker] = next(batches).tolist()
    [process] = set(multiprocessing.active_children()) - before
    assert process.pid == worker
    os.kill(worker, signal.SIGTERM)  # as Ctrl-C and Slurm do to all processes of a job
    process.join(0.3)
    assert process.is_alive()
    del batches
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert set(multiprocessing.active_children()) == before
