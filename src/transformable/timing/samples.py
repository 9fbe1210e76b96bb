"""Networks of other widths, run to time each of their parts."""

import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ..costing.possible_masks import PossibleMasks
from ..settings import Runtime
from ..shape import Shape
from ..slimming.slim import slim, slim_graph
from ..tracing.layouts import Union
from ..tracing.space import Space
from .runtimes import node_times, whole_call
from .stopwatch import time_calls

__all__ = ["RANDOM", "Sample", "choose_shapes", "steadied", "take_sample"]

ROUNDS = 15
RANDOM = 32  # networks of random shape, by which the sum of the parts is corrected


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A network of some shape, as it was timed; in nanoseconds."""

    shape: Shape
    masks: list[int]
    nodes: Mapping[str, float]
    """The time of each node of the graph of the space that the runtime shows."""
    total: float
    full: float
    """The time of the unpruned network, called alternately with this one."""


def take_sample(
    model: nn.Module,
    space: Space,
    shape: Shape,
    runtime: Runtime,
    x: Tensor,
    full: Callable[[], object],
) -> Sample:
    """Time the network of a shape by node, and as a whole alternately with the full network."""
    graph = slim_graph(model, space, shape)
    sources = {node.name: str(node.meta.get("source")) for node in graph.graph.nodes}
    nodes: dict[str, float] = defaultdict(float)
    for name, nanoseconds in node_times(runtime, graph, x, ROUNDS).items():
        nodes[sources[name]] += nanoseconds
    whole = whole_call(runtime, slim(model, space, shape), x)
    timed = time_calls({"small": whole, "full": full}, rounds=ROUNDS)
    return Sample(
        shape=shape,
        masks=space.masks(shape),
        nodes=nodes,
        total=1e6 * timed["small"].low_ms,
        full=1e6 * timed["full"].low_ms,
    )


def steadied(samples: Sequence[Sample]) -> list[Sample]:
    """The samples scaled as if the full network had taken the same time with each of them."""
    usual = statistics.median(sample.full for sample in samples)
    return [
        replace(
            sample,
            nodes={name: t * usual / sample.full for name, t in sample.nodes.items()},
            total=sample.total * usual / sample.full,
            full=usual,
        )
        for sample in samples
    ]


def choose_shapes(space: Space, levels: int) -> list[Shape]:
    """The full shape; shapes that combine each of ``levels`` widths of a layer with each of the
    next, for a prime number of levels; random shapes.

    In the second kind, layers whose outputs are added have the same relative width, so that narrow
    sums occur too.
    """
    groups = _added_together(space)
    generator = random.Random(0)
    combined = [
        {name: (i + group * j) % levels / (levels - 1) for name, group in groups.items()}
        for i in range(levels)
        for j in range(levels)
    ]
    drawn = [{name: generator.random() for name in space.candidates} for _ in range(RANDOM)]
    places = [{}, *combined, *drawn]
    return [
        space.shape_at(
            {
                name: round(place.get(name, 1.0) * (len(sizes) - 1))
                for name, sizes in space.candidates.items()
            }
        )
        if place
        else space.full
        for place in places
    ]


def _added_together(space: Space) -> dict[str, int]:
    """A number for each layer, the same for those whose outputs are added."""
    masks = PossibleMasks(space)
    group = {name: i for i, name in enumerate(space.widths)}
    for index, layout in enumerate(space.layouts):
        if isinstance(layout, Union):
            numbers = {group[name] for name in masks.choices(index) if name in group}
            group = {name: min(numbers) if n in numbers else n for name, n in group.items()}
    order = {number: i for i, number in enumerate(dict.fromkeys(group.values()))}
    return {name: order[number] for name, number in group.items()}
