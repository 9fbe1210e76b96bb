"""The parts of a network that take time, and the layouts that each part's time depends on."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from ..costing.latency import Surface, TimedPart
from ..layers import in_mode
from ..resizing import MATRICES
from ..tracing.layouts import StageOutput
from ..tracing.network_graph import path_of
from ..tracing.reader import Block, Layer, ResidualAdd
from ..tracing.space import Space

__all__ = ["Part", "find_parts", "timed_part"]


@dataclass(frozen=True, kw_only=True)
class Part:
    """A node of the graph of a space.

    Parts of one ``kind`` differ only in their widths, so a time measured for one holds for all.
    """

    name: str
    kind: str
    layer: str
    ins: int | None
    outs: int | None
    block: Block
    original_only: bool
    is_matrix: bool
    is_add: bool
    pixels: int
    """The number of positions of its output."""

    @property
    def operation(self) -> str:
        """What it does, without the size of the images."""
        return self.kind.partition(",")[0]


def timed_part(
    part: Part,
    surface: Surface,
    unequal: Surface | None = None,
    unaligned: Surface | None = None,
) -> TimedPart:
    """A part with its times."""
    return TimedPart(
        name=part.name,
        layer=part.layer,
        ins=part.ins,
        outs=part.outs,
        block=part.block,
        original_only=part.original_only,
        surface=surface,
        unequal=unequal,
        unaligned=unaligned,
    )


class _OutputSizes(fx.Interpreter):
    """Runs a network and remembers the size of each node's output."""

    def __init__(self, model: nn.Module, graph: fx.Graph) -> None:
        super().__init__(fx.GraphModule(model, graph))
        self.sizes: dict[str, tuple[int, ...]] = {}

    def run_node(self, n: fx.Node) -> object:
        output = super().run_node(n)
        if isinstance(output, Tensor):
            self.sizes[n.name] = tuple(output.shape)
        return output


def find_parts(model: nn.Module, space: Space) -> list[Part]:
    """All nodes that call something, in order of execution."""
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    runner = _OutputSizes(model, space.graph)
    # the graph has the modules of the network
    with torch.no_grad(), in_mode(runner.module, training=False):
        runner.run(torch.zeros(1, *space.input_shape, device=device))
    layers = {layer.name: layer for layer in space.layers}
    adds = {add.node: add for add in space.adds}
    parts: list[Part] = []
    last_layer = ""
    for node in space.graph.nodes:
        if node.op not in ("call_module", "call_function", "call_method"):
            continue
        layer = layers.get(str(node.target)) if node.op == "call_module" else None
        if layer is not None and layer.kind != "norm":
            last_layer = layer.name
        block = layer.block if layer is not None else _block(space, path_of(node))
        ins, outs = (
            _inside(space, index, block) for index in _layouts(node, layer, adds.get(node), space)
        )
        parts.append(
            Part(
                name=node.name,
                kind=_kind(node, runner.sizes, model, space),
                layer=last_layer,
                ins=ins,
                outs=outs,
                block=block,
                original_only=layer is not None and layer.original_only,
                is_matrix=layer is not None and layer.kind not in ("norm", "constant"),
                is_add=node in adds,
                pixels=_pixels(runner.sizes.get(node.name, ()), space.axis_of.get(node, 1)),
            )
        )
    return parts


def _layouts(
    node: fx.Node, layer: Layer | None, add: ResidualAdd | None, space: Space
) -> tuple[int | None, int | None]:
    if layer is not None and layer.kind in MATRICES:
        return layer.inputs, layer.outputs
    if add is not None and len(add.operands) == 2:
        return add.operands[0], add.operands[1]
    if node in space.layout_of:
        return None, space.layout_of[node]
    known = [space.layout_of[n] for n in node.all_input_nodes if n in space.layout_of]
    return None, known[0] if known else None


def _inside(space: Space, index: int | None, block: Block) -> int | None:
    """The layout inside of a block: the end of a stage has that of its last block that is kept, but
    what is done in a block is done only if that one is kept."""
    match space.layouts[index] if index is not None else None:
        case StageOutput(_, stage, parts) if block is not None and block[0] == stage:
            return parts[block[1]]
    return index


def _block(space: Space, path: str) -> Block:
    for name, stage in space.stages.items():
        for i, block in enumerate(stage.blocks):
            if f"{path}.".startswith(f"{block}."):
                return name, i
    return None


def _pixels(size: tuple[int, ...], axis: int) -> int:
    count = 1
    for i, length in enumerate(size):
        if i not in (0, axis % len(size)):
            count *= length
    return count


def _kind(
    node: fx.Node, sizes: Mapping[str, tuple[int, ...]], model: nn.Module, space: Space
) -> str:
    """What a node does, without its widths: the operation, its constants, the sizes of images."""
    what = str(node.target)
    if node.op == "call_module":
        module = model.get_submodule(what)
        constants = (
            f"{name} {value}"
            for name in ("kernel_size", "stride", "padding", "dilation", "output_size")
            if (value := getattr(module, name, None)) is not None
        )
        what = ", ".join((type(module).__name__, *constants))
        if getattr(module, "groups", 1) > 1:
            what += ", grouped"
    elif node.op == "call_function":
        what = getattr(node.target, "__name__", what)
    images = []
    for each in (*node.all_input_nodes[:1], node):
        size, axis = list(sizes.get(each.name, ())), space.axis_of.get(each, 1)
        if len(size) > 1:
            del size[axis % len(size)]
        images.append("x".join(map(str, size[1:])))
    return f"{what}, {' to '.join(dict.fromkeys(images))}"
