"""A command in a process of its own; in a module of its own, so that the process can import it."""

import os
import sys


def command(folder: str, out: str) -> None:
    """What the shell would start."""
    import torch

    from transformable.cli import main

    torch.set_num_threads(1)
    os.chdir(folder)
    with open(f"{out}.out", "a") as sys.stdout, open(f"{out}.err", "a") as sys.stderr:
        status = main(
            [
                "train",
                "--model=net.py:net",
                "--data=npz:tiny.npz",
                "--epochs=4",
                "--batch-size=8",
                "--checkpoint-seconds=0.05",
                "--json",
                f"--out={out}",
            ]
        )
    sys.exit(status)
