"""Absolute paths from the command line, so that they can be read from any folder later."""

import os

__all__ = ["absolute_path", "absolute_spec", "names_a_dataset"]

DATASETS = ("digits", "cifar10", "cifar100", "folder", "npz")


def absolute_path(path: str) -> str:
    """The path from the root; a link stays what it is."""
    return os.path.abspath(os.path.expanduser(path))


def absolute_spec(spec: str) -> str:
    """A dataset or a path.py:function with an absolute path; other names stay.

    >>> absolute_spec("npz:/data/faces.npz"), absolute_spec("cifar10:16")
    ('npz:/data/faces.npz', 'cifar10:16')
    """
    kind, _, place = spec.partition(":")
    if kind in ("npz", "folder") and place:
        return f"{kind}:{absolute_path(place)}"
    path, _, name = spec.rpartition(":")
    return f"{absolute_path(path)}:{name}" if path.endswith(".py") else spec


def names_a_dataset(name: str) -> bool:
    """Whether ``--data`` can take a name; a dataset that was made in Python has another.

    >>> names_a_dataset("cifar10:16"), names_a_dataset("tensors")
    (True, False)
    """
    return name.partition(":")[0] in DATASETS
