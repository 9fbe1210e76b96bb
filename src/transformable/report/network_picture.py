"""The layers of a network by stage and block, for the pictures of the network."""

from collections.abc import Sequence
from dataclasses import dataclass

from .run_facts import Layer

__all__ = ["Block", "Stage", "bar_percent", "stages_in_order", "stages_need_full_width"]

MAX_BLOCKS, MAX_STAGES = 4, 3
# the smallest part of a bar that can be seen
MIN_PERCENT = 1.5


@dataclass(frozen=True)
class Block:
    number: int | None
    layers: Sequence[Layer]

    @property
    def dropped(self) -> bool:
        return all(layer.dropped for layer in self.layers)


@dataclass(frozen=True)
class Stage:
    """The layers of a stage; with the name None, successive layers outside of the stages."""

    name: str | None
    layers: list[Layer]

    @property
    def blocks(self) -> list[Block]:
        numbers = dict.fromkeys(layer.block for layer in self.layers)
        return [
            Block(number, [layer for layer in self.layers if layer.block == number])
            for number in numbers
        ]

    @property
    def kept_blocks(self) -> int:
        return sum(not block.dropped for block in self.blocks)

    @property
    def widest(self) -> int:
        """The largest number of channels, to which the bars of the stage are drawn to scale."""
        return max(max(layer.full, layer.kept) for layer in self.layers)


def stages_in_order(layers: Sequence[Layer]) -> list[Stage]:
    """The stages, and the runs of layers outside of them, in order of execution.

    A layer that was added may be at the end of the list; it belongs to its stage all the same.
    """
    stages: list[Stage] = []
    for layer in layers:
        candidates = stages[-1:] if layer.stage is None else stages
        known = [stage for stage in candidates if stage.name == layer.stage]
        if known:
            known[0].layers.append(layer)
        else:
            stages.append(Stage(layer.stage, [layer]))
    return stages


def stages_need_full_width(stages: Sequence[Stage]) -> bool:
    """Whether boxes side by side would have very different heights, or be too many for a row."""
    most_blocks = max(len(stage.blocks) for stage in stages)
    return most_blocks > MAX_BLOCKS or sum(s.name is not None for s in stages) > MAX_STAGES


def bar_percent(part: int, whole: int) -> str:
    """
    >>> bar_percent(11, 16), bar_percent(0, 16), bar_percent(1, 2048)
    ('68.75', '0', '1.5')
    """
    return f"{max(MIN_PERCENT, 100 * part / whole):.4g}" if part else "0"
