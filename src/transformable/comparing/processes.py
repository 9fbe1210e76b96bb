"""Trials in processes of their own: what happens to one does not happen to the others."""

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from ..atomic_files import write_whole
from .grid import Grid, Trial

__all__ = ["Status", "failure", "run_trials", "status", "threads"]

FAILED = "failed.json"
STATUS = "status.txt"
LOG = "log.txt"
Work = Callable[[Grid, Trial, Path], None]


def run_trials(
    args: Grid,
    out: Path,
    work: Work,
    following: Callable[[], Trial | None],
    finished: Callable[[Trial, str | None], None],
    tick: Callable[[], None],
) -> None:
    """Run trials, some side by side, as long as there is a following one.

    ``finished`` is told of each how it failed, or None; ``tick`` is called about once a second.
    """
    running: dict[BaseProcess, Trial] = {}
    try:
        while True:
            while len(running) < args.jobs and (trial := following()) is not None:
                running[_start(args, out, work, trial)] = trial
            tick()
            if not running:
                return
            wait([process.sentinel for process in running], timeout=1.0)
            for process in [p for p in running if p.exitcode is not None]:
                process.join()
                trial = running.pop(process)
                finished(trial, _reason(process.exitcode, out / trial.name))
    finally:
        _stop(list(running))


def failure(folder: Path) -> str | None:
    """Why a trial failed, if it did."""
    path = folder / FAILED
    return str(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def status(folder: Path) -> str | None:
    """What a running trial is at."""
    path = folder / STATUS
    return path.read_text(encoding="utf-8") or None if path.exists() else None


def threads(jobs: int) -> int:
    """How many a trial has if so many run side by side."""
    import torch

    return max(1, torch.get_num_threads() // jobs)


def _start(args: Grid, out: Path, work: Work, trial: Trial) -> BaseProcess:
    folder = out / trial.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FAILED).unlink(missing_ok=True)
    # forked from a server that has done nothing but import: quick, and no threads are lost
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__module__])
    process = context.Process(target=_work, args=(args, trial, folder, work), name=trial.name)
    process.start()
    return process


def _work(args: Grid, trial: Trial, folder: Path, work: Work) -> None:
    """In the process: what it says goes to a file, and so does why it failed."""
    import torch

    # Ctrl-C is for the parent, which then asks its trials to stop
    os.setpgrp()
    # processes share the processors: each thread more than there are slows all
    torch.set_num_threads(threads(args.jobs))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    with (folder / LOG).open("a", buffering=1) as log:
        os.dup2(log.fileno(), sys.stdout.fileno())
        os.dup2(log.fileno(), sys.stderr.fileno())
        try:
            work(args, trial, folder)
        except KeyboardInterrupt:
            sys.exit(130)
        except Exception as error:
            traceback.print_exc()
            words = " ".join(str(error).split())
            kind = "" if isinstance(error, (ValueError, OSError)) else f"{type(error).__name__}: "
            write_whole(folder / FAILED, json.dumps(f"{kind}{words}"))
            sys.exit(1)


def _stop_with_parent() -> None:
    """A trial whose parent was killed saves and ends too: nobody would look after it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)


def _reason(exitcode: int | None, folder: Path) -> str | None:
    """How a process failed; one that could not say so itself was killed."""
    if exitcode == 0:
        return None
    if failure(folder) is None:
        killed = exitcode is not None and exitcode < 0
        words = f"killed by signal {-(exitcode or 0)}" if killed else f"exit code {exitcode}"
        memory = ", perhaps for want of memory" if exitcode == -signal.SIGKILL else ""
        write_whole(folder / FAILED, json.dumps(f"its process ended: {words}{memory}"))
    return failure(folder)


def _stop(running: list[BaseProcess]) -> None:
    """Let processes save what they have done."""
    for process in running:
        with suppress(ProcessLookupError):
            process.terminate()
    for process in running:
        process.join()


class Status:
    """Progress that is left in a file, for the process that shows it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / STATUS
        self._what, self._total, self._told = "", 0, 0.0

    def start(self, what: str, total: int, done: int) -> None:
        self._what, self._total, self._told = what, total, 0.0
        self.advance(done)

    def advance(self, done: int) -> None:
        if time.monotonic() - self._told > 1.0:
            self._told = time.monotonic()
            share = f" {done / self._total:.0%}" if self._total > 1 else ""
            self._path.write_text(f"{self._what}{share}", encoding="utf-8")

    def note(self, text: str) -> None:
        pass
