"""A command in a process of its own; in a module of its own, so that the process can import it."""

import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path


def command(folder: str, out: str, arguments: list[str], checkpoint_seconds: float) -> None:
    """What the shell would start."""
    import torch

    from transformable.cli.entry import main

    # a shell that started the tests in the background has left it ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    os.chdir(folder)
    with open(f"{out}.out", "a") as sys.stdout, open(f"{out}.err", "a") as sys.stderr:
        often = f"--checkpoint-seconds={checkpoint_seconds}"
        status = main([*arguments, often, "--json", f"--out={out}"])
    sys.exit(status)


def start(folder: Path, out: str, *arguments: str, checkpoint_seconds: float = 0.05) -> BaseProcess:
    """A process that runs the command in this folder."""
    # The server imports torch once; each process forked from it starts at once.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transformable.cli.search", "transformable.cli.prune"])
    process = context.Process(
        target=command, args=(str(folder), out, list(arguments), checkpoint_seconds)
    )
    process.start()
    return process


def wait_for(path: Path, process: BaseProcess) -> None:
    """Until the file is there, or the process has ended."""
    while not path.exists() and process.is_alive():
        time.sleep(0.002)
