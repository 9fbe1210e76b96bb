"""Reading a network: its graph, its stages, and the layout of every tensor in it."""

from .graph import Stage, inside
from .layout import Layout, bits, evaluate, kept
from .reading import Join, Layer
from .trace import OUTPUT, read

__all__ = [
    "OUTPUT",
    "Join",
    "Layer",
    "Layout",
    "Stage",
    "bits",
    "evaluate",
    "inside",
    "kept",
    "read",
]
