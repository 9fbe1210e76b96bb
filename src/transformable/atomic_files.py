"""Write files atomically; the bytes of a weights file."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = [
    "CHECKSUM",
    "is_leftover",
    "remove_leftovers",
    "weights_as_bytes",
    "weights_checksum",
    "write_whole",
]

CHECKSUM = "sha256"
"""The key of the checksum in the metadata of a weights file."""


def weights_as_bytes(model: "nn.Module") -> bytes:
    """The content of a .safetensors file with the weights of the network and their checksum."""
    import safetensors.torch

    # clones: safetensors takes neither views nor other memory formats
    state = {
        name: value.detach().cpu().contiguous().clone()
        for name, value in model.state_dict().items()
    }
    return safetensors.torch.save(state, metadata={CHECKSUM: weights_checksum(state)})


def weights_checksum(state: "Mapping[str, Tensor]") -> str:
    """The SHA-256 of the names, types, sizes and values of weights."""
    import torch

    checksum = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        checksum.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # as bytes, because numpy does not know all of torch's types
        values: Any = tensor.contiguous().flatten().view(torch.uint8).numpy()
        checksum.update(values)
    return checksum.hexdigest()


def write_whole(
    path: Path, content: str | Callable[[BinaryIO], object], *, previous: Path | None = None
) -> None:
    """Replace a file atomically: at any moment the old or the new one is there, complete.

    With ``previous``, the old file is kept under that name; for a moment it has that name alone.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            if isinstance(content, str):
                file.write(content.encode())
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            os.replace(path, previous)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)  # errors of write and fsync, such as a full disk, lack it
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name too must outlive a power cut
    finally:
        os.close(folder)


def is_leftover(path: Path) -> bool:
    """Whether a process that was killed has left this file half written.

    >>> is_leftover(Path("run/.result.json.part")), is_leftover(Path("run/result.json"))
    (True, False)
    """
    return path.name.startswith(".") and path.name.endswith(".part")


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes have left half written in a folder."""
    for path in folder.iterdir():
        if is_leftover(path):
            path.unlink(missing_ok=True)
