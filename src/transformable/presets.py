"""Where a training starts from, by name; both may depend on the dataset."""

from collections.abc import Callable
from dataclasses import replace

from .config import Preset, Training

__all__ = ["PRESETS", "paper", "quick"]


def quick(data: str) -> Training:
    """Minutes on a CPU, and the same for every dataset so far."""
    return Training(epochs=10, batch_size=64, lr=0.1, weight_decay=5e-4, warmup_epochs=0.5)


def paper(data: str) -> Training:
    """The schedule of the paper: 300 epochs, or 120 on photos.

    >>> paper("cifar10").epochs, paper("folder:photos").weight_decay
    (300, 0.0001)
    """
    cifar = Training(epochs=300, batch_size=256, lr=0.1, weight_decay=5e-4, warmup_epochs=5.0)
    return replace(cifar, epochs=120, weight_decay=1e-4) if _photos(data) else cifar


def _photos(data: str) -> bool:
    return data.startswith("folder:")


PRESETS: dict[Preset, Callable[[str], Training]] = {"quick": quick, "paper": paper}
