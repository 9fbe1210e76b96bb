"""Give it a convolutional network and a budget: it gives a smaller, faster, trained network."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, methods, models
    from .budget import Budget
    from .config import Distilling, Searching, Training
    from .cost import macs, params
    from .deriving import derive
    from .evaluation import evaluate
    from .loading import load
    from .pipeline import Pruned
    from .pruning import prune
    from .searching import search
    from .shape import Shape
    from .slimming import slim
    from .space import Space
    from .supernet import SuperNet
    from .training import train
    from .transfer import distill

__all__ = [
    "Budget",
    "Distilling",
    "Pruned",
    "Searching",
    "Shape",
    "Space",
    "SuperNet",
    "Training",
    "data",
    "derive",
    "distill",
    "evaluate",
    "load",
    "macs",
    "methods",
    "models",
    "params",
    "prune",
    "search",
    "slim",
    "train",
]

__version__ = version("transformable")

# names are imported when they are first asked for, so that `tas --help` need not wait for torch
_HOMES = {
    "Budget": "budget",
    "Distilling": "config",
    "Pruned": "pipeline",
    "Searching": "config",
    "Shape": "shape",
    "Space": "space",
    "SuperNet": "supernet",
    "Training": "config",
    "derive": "deriving",
    "distill": "transfer",
    "evaluate": "evaluation",
    "load": "loading",
    "macs": "cost",
    "params": "cost",
    "prune": "pruning",
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
