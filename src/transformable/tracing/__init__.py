"""Reading a network: its graph, its stages, and the layout of every tensor in it."""

from .layouts import (
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
from .network_graph import Stage, inside
from .read_network import OUTPUT, read
from .reader import Block, Join, Layer

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
