"""The file of a checkpoint: a version and a checksum at its end, and the one before it kept."""

import hashlib
import io
import os
import re
import warnings
from pathlib import Path
from typing import Any

from ..atomic_files import write_whole

__all__ = ["CHECKPOINT", "read_checkpoint", "write_checkpoint"]

CHECKPOINT = "checkpoint.pt"
PREVIOUS = "checkpoint.previous.pt"
VERSION = 1
"""Of what a checkpoint holds; counted up when an older one cannot be continued from."""
SEAL = re.compile(rb"\ntransformable checkpoint (\d+) sha256 ([0-9a-f]{64})\n")


class DamagedError(ValueError):
    """A file is not what was written."""


def write_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write the file; the one before it stays until this one is complete, and then is kept."""
    import torch

    content = io.BytesIO()
    torch.save(state, content)
    # torch.load takes the file as it is: a zip archive may be followed by something else
    content.write(f"\ntransformable checkpoint {VERSION} sha256 ".encode())
    content.write(f"{hashlib.sha256(content.getbuffer()).hexdigest()}\n".encode())
    write_whole(
        folder / CHECKPOINT,
        lambda file: file.write(content.getbuffer()),
        previous=folder / PREVIOUS,
    )


def read_checkpoint(folder: Path) -> dict[str, Any] | None:
    """The newest state that is whole, or None if none was written.

    If the newest file is damaged, the one before it takes its place, with a warning.
    """
    damaged: list[str] = []
    for path in (folder / CHECKPOINT, folder / PREVIOUS):
        try:
            state = _read(path)
        except FileNotFoundError:
            continue
        except DamagedError as error:
            damaged.append(f"{path} is damaged ({error})")
            continue
        if damaged:
            # or the next file that is written would take the place of the only whole one
            os.replace(path, folder / CHECKPOINT)
            warnings.warn(
                f"{damaged[0]}; the run continues from the checkpoint before it", stacklevel=2
            )
        return state
    if damaged:
        them = "it" if len(damaged) == 1 else "both"
        raise ValueError(f"{' and '.join(damaged)}; remove {them} to start this run again")
    return None


def _read(path: Path) -> dict[str, Any]:
    import torch

    content = path.read_bytes()
    seal = SEAL.search(content, max(0, len(content) - 200))
    if seal is None or seal.end() != len(content):
        raise DamagedError("it is cut off, or older than this version of transformable")
    version, digest = (group.decode() for group in seal.groups())
    if hashlib.sha256(content[: seal.start(2)]).hexdigest() != digest:
        raise DamagedError("SHA-256 mismatch")
    if int(version) != VERSION:
        raise ValueError(
            f"{path} has version {version} of checkpoints, and this version of transformable "
            f"reads {VERSION}; use the other one, or remove the file to start this run again"
        )
    try:
        state: dict[str, Any] = torch.load(
            io.BytesIO(content[: seal.start()]), map_location="cpu", weights_only=True
        )
    except Exception as error:  # torch raises many kinds
        raise DamagedError(type(error).__name__) from None
    return state
