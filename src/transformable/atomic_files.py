"""Write files atomically; the bytes of a weights file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from torch import nn

__all__ = ["weights_as_bytes", "write_whole"]


def weights_as_bytes(model: "nn.Module") -> bytes:
    """The content of a .safetensors file with the weights of the network."""
    import safetensors.torch

    # clones: safetensors takes neither views nor other memory formats
    state = {
        name: value.detach().cpu().contiguous().clone()
        for name, value in model.state_dict().items()
    }
    return safetensors.torch.save(state)


def write_whole(path: Path, content: str | Callable[[BinaryIO], object]) -> None:
    """Replace a file atomically: at any moment the old or the new one is there, complete."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            if isinstance(content, str):
                file.write(content.encode())
            else:
                content(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name too must outlive a power cut
    finally:
        os.close(folder)
