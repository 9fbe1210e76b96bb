"""Fingerprints of images: what distinguishes sets of the same name.

They do not depend on where the images are, nor on the seed or on how they are normalised.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

__all__ = ["of_photos", "of_tensors"]

READ = 1000
"""Photos of which the bytes are read, evenly spaced; of the others, the name and size count."""


def of_tensors(*tensors: Tensor) -> str:
    """The SHA-256 of the types, sizes and values of tensors.

    >>> of_tensors(torch.zeros(2)) == of_tensors(torch.zeros(2)), len(of_tensors())
    (True, 64)
    >>> of_tensors(torch.zeros(2)) == of_tensors(torch.zeros(2, 1))
    False
    """
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        # images are channels-last: in this order of the axes they are not copied
        plain = tensor.permute(0, 2, 3, 1) if tensor.ndim == 4 else tensor
        values: Any = plain.contiguous().flatten().view(torch.uint8).numpy()
        found.update(values)
    return found.hexdigest()


def of_photos(root: Path, paths: Iterable[Path]) -> str:
    """The SHA-256 of the names and sizes of photos below a folder, and of the bytes of some."""
    paths = sorted(paths)
    found = hashlib.sha256()
    every = -(-len(paths) // READ)
    for number, path in enumerate(paths):
        found.update(f"{path.relative_to(root)} {path.stat().st_size}\n".encode("utf-8", "replace"))
        if number % every == 0:
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
