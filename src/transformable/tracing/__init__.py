"""Reading a network: its graph, its stages, and the layout of every tensor in it."""

from .graph import Stage, inside
from .layout import (
    Concat,
    Fixed,
    Last,
    Layout,
    Own,
    Place,
    Repeat,
    Union,
    bits,
    evaluate,
    kept,
    placed,
)
from .reading import Block, Join, Layer
from .trace import OUTPUT, read

__all__ = [
    "OUTPUT",
    "Block",
    "Concat",
    "Fixed",
    "Join",
    "Last",
    "Layer",
    "Layout",
    "Own",
    "Place",
    "Repeat",
    "Stage",
    "Union",
    "bits",
    "evaluate",
    "inside",
    "kept",
    "placed",
    "read",
]
