"""Give it a convolutional network and a budget: it returns a smaller, trained network."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import data, methods, models
    from .costing.budget import Budget
    from .costing.cost import macs, params
    from .networks.load import load
    from .pruning.prune import Pruned, prune
    from .searching.derive import derive
    from .searching.search import search
    from .settings import Distilling, Searching, Training
    from .shape import Shape
    from .slimming.slim import slim
    from .supernet.supernet import SuperNet
    from .tracing.space import Space
    from .training.distill import distill
    from .training.evaluate import evaluate
    from .training.session import Session
    from .training.train import train

__all__ = [
    "Budget",
    "Distilling",
    "Pruned",
    "Searching",
    "Session",
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
    "Budget": "costing.budget",
    "Distilling": "settings",
    "Pruned": "pruning.prune",
    "Searching": "settings",
    "Session": "training.session",
    "Shape": "shape",
    "Space": "tracing.space",
    "SuperNet": "supernet.supernet",
    "Training": "settings",
    "derive": "searching.derive",
    "distill": "training.distill",
    "evaluate": "training.evaluate",
    "load": "networks.load",
    "macs": "costing.cost",
    "params": "costing.cost",
    "prune": "pruning.prune",
    "search": "searching.search",
    "slim": "slimming.slim",
    "train": "training.train",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
