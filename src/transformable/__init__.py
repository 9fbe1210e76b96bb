"""Give it a convolutional network and a budget: it gives a smaller, faster, trained network."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, models
    from .budget import Budget
    from .config import Searching, Training
    from .cost import macs, params
    from .deriving import derive
    from .evaluation import evaluate
    from .searching import search
    from .shape import Shape
    from .slimming import slim
    from .space import Space
    from .supernet import SuperNet
    from .training import train

__all__ = [
    "Budget",
    "Searching",
    "Shape",
    "Space",
    "SuperNet",
    "Training",
    "data",
    "derive",
    "evaluate",
    "macs",
    "models",
    "params",
    "search",
    "slim",
    "train",
]

__version__ = version("transformable")

# names are imported when they are first asked for, so that `tas --help` need not wait for torch
_HOMES = {
    "Budget": "budget",
    "Searching": "config",
    "Shape": "shape",
    "Space": "space",
    "SuperNet": "supernet",
    "Training": "config",
    "derive": "deriving",
    "evaluate": "evaluation",
    "macs": "cost",
    "params": "cost",
    "search": "searching",
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
