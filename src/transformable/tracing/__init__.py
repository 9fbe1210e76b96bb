"""From a network to its Space: its graph, its stages, and the layout of every tensor."""

from .layouts import (
    Concat,
    FixedWidth,
    Flattened,
    LayerOutput,
    Layout,
    Placed,
    StageOutput,
    Union,
    channel_masks,
    kept_channels,
    parts_of,
    placed_mask,
    set_bits,
)
from .network_graph import Stage, inside
from .read_network import OUTPUT, read_network
from .reader import Block, Layer, ResidualAdd

__all__ = [
    "OUTPUT",
    "Block",
    "Concat",
    "FixedWidth",
    "Flattened",
    "Layer",
    "LayerOutput",
    "Layout",
    "Placed",
    "ResidualAdd",
    "Stage",
    "StageOutput",
    "Union",
    "channel_masks",
    "inside",
    "kept_channels",
    "parts_of",
    "placed_mask",
    "read_network",
    "set_bits",
]
