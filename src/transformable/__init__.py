"""Give it a convolutional network and a budget: it gives a smaller, faster, trained network."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, models
    from .config import Training
    from .cost import macs, params
    from .evaluation import evaluate
    from .shape import Shape
    from .slimming import slim
    from .space import Space
    from .supernet import SuperNet
    from .training import train

__all__ = [
    "Shape",
    "Space",
    "SuperNet",
    "Training",
    "data",
    "evaluate",
    "macs",
    "models",
    "params",
    "slim",
    "train",
]

__version__ = version("transformable")

# names are imported when they are first asked for, so that `tas --help` need not wait for torch
_HOMES = {
    "Shape": "shape",
    "Space": "space",
    "SuperNet": "supernet",
    "Training": "config",
    "evaluate": "evaluation",
    "macs": "cost",
    "params": "cost",
    "slim": "slimming",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
