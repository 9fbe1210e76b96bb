"""Run each trial in a process of its own, so that one that fails does not affect the others."""

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from ..atomic_files import write_whole
from .trials import Trial

__all__ = ["Logs", "run_trials", "threads_per_trial"]

Work = Callable[[Any, Trial, Path], None]
"""``work(options, trial, folder)`` does one trial; it and the options must be picklable."""


STOP_SECONDS = 60.0
"""How long trials may take to save their state."""


class Logs:
    """The files ``logs/TRIAL.*`` by which the process of a trial reports to its parent."""

    def __init__(self, out: Path, trial: Trial) -> None:
        place = out / "logs"
        self.output = place / f"{trial.name}.log"
        self._failed = place / f"{trial.name}.failed"

    def failure(self) -> str | None:
        """Why the trial failed, if it did."""
        return self._failed.read_text(encoding="utf-8") if self._failed.exists() else None

    def set_failure(self, reason: str | None) -> None:
        if reason is None:
            self._failed.unlink(missing_ok=True)
        else:
            write_whole(self._failed, reason)


def run_trials(
    work: Work,
    options: Sequence[Any],
    out: Path,
    next_trial: Callable[[], Trial | None],
    finished: Callable[[Trial, str | None], None],
    tick: Callable[[], None],
) -> None:
    """Run trials in processes until there is no next one: as many side by side as there are
    ``options``, each of which serves one trial at a time.

    ``finished`` is called with each trial and the reason if it failed, ``tick`` about once a
    second.
    """
    running: dict[BaseProcess, tuple[Trial, Any]] = {}
    free = [*reversed(options)]
    try:
        while True:
            while free and (trial := next_trial()) is not None:
                own = free.pop()
                running[_start(work, own, out, len(options), trial)] = trial, own
            tick()
            if not running:
                return
            wait([process.sentinel for process in running], timeout=1.0)
            for process in [p for p in running if p.exitcode is not None]:
                process.join()
                trial, own = running.pop(process)
                free.append(own)
                finished(trial, _reason(process.exitcode, Logs(out, trial)))
    finally:
        _stop(list(running))


def threads_per_trial(jobs: int) -> int:
    """How many threads each trial may use when ``jobs`` trials run side by side."""
    return max(1, torch.get_num_threads() // jobs)


def _start(work: Work, options: Any, out: Path, jobs: int, trial: Trial) -> BaseProcess:
    (out / trial.name).mkdir(parents=True, exist_ok=True)
    (out / "logs").mkdir(parents=True, exist_ok=True)
    Logs(out, trial).set_failure(None)
    # forked from a server that has done nothing but import: quick, and no threads are lost
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([getattr(work, "func", work).__module__])  # also of a partial
    arguments = (work, options, out, jobs, trial)
    process = context.Process(target=_run_process, args=arguments, name=trial.name)
    process.start()
    return process


def _run_process(work: Work, options: Any, out: Path, jobs: int, trial: Trial) -> None:
    """Run in the new process; its output and, if it fails, the reason go to the files of Logs."""
    # Ctrl-C is for the parent, which then asks its trials to stop
    os.setpgrp()
    # the trials share the processors: more threads than processors would slow all of them
    torch.set_num_threads(threads_per_trial(jobs))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    logs = Logs(out, trial)
    with logs.output.open("a", buffering=1) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        try:
            work(options, trial, out / trial.name)
        except KeyboardInterrupt:
            sys.exit(130)
        except Exception as error:
            traceback.print_exc()
            words = " ".join(str(error).split())
            kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
            logs.set_failure(f"{kind}{words}")
            sys.exit(1)


def _stop_with_parent() -> None:
    """Stop this trial, which saves its state, when its parent process is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _reason(exitcode: int | None, logs: Logs) -> str | None:
    """Why a process failed, or None; a process that was killed has left no reason itself."""
    if exitcode == 0:
        return None
    if logs.failure() is None:
        killed = exitcode is not None and exitcode < 0
        words = f"killed by signal {-(exitcode or 0)}" if killed else f"exit code {exitcode}"
        memory = ", probably out of memory" if exitcode == -signal.SIGKILL else ""
        logs.set_failure(f"its process ended: {words}{memory}")
    return logs.failure()


def _stop(running: list[BaseProcess]) -> None:
    """Ask processes to save their state and end, and wait for them; one that does not is killed."""
    for process in running:
        with suppress(ProcessLookupError):
            process.terminate()
    end = time.monotonic() + STOP_SECONDS
    for process in running:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
