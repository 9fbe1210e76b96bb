"""slim: the small ordinary network that has a given shape."""

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import fx, nn

from ..layers import PaddedAdd, Skipped, initialise
from ..resizing import resize
from ..shape import Shape
from ..tracing.layouts import kept_channels, set_bits
from ..tracing.network_graph import inside
from ..tracing.reader import ResidualAdd, Split
from ..tracing.space import Space

__all__ = ["check_same_network", "revive_dropout", "slim", "slim_graph"]


def slim(
    model: nn.Module, space: Space, shape: Shape, weights: Literal["copy", "fresh"] = "copy"
) -> nn.Module:
    """The network at this shape, with the weights of `model` ("copy") or new ones ("fresh").

    The result has the class of the network, unless an add inside a `forward` has to pad or project
    an operand, or a dropped block takes or returns something else than a tensor: then it is a
    `torch.fx.GraphModule`. The names in its state dict are those of the network in both cases.

    >>> from transformable import Space, models
    >>> net = models.build("resnet20")
    >>> space = Space.trace(net, input_shape=(3, 32, 32))
    >>> half = {name: width // 2 for name, width in space.full.widths.items()}
    >>> small = slim(net, space, space.full.replace(widths=half))
    >>> small.stages[2][0].conv2
    Conv2d(32, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)
    """
    if weights not in ("copy", "fresh"):
        raise ValueError(f'weights must be "copy" or "fresh", not {weights!r}')
    space.check(shape)
    check_same_network(model, space)
    small = copy.deepcopy(model)
    if shape != space.full:
        small = _reshape(small, space, shape)
    if weights == "fresh":
        initialise(small)
    return small


def slim_graph(model: nn.Module, space: Space, shape: Shape) -> fx.GraphModule:
    """The network at this shape in graph form; ``meta["source"]`` of each node is the name of the
    node of ``space.graph`` that it stands for."""
    space.check(shape)
    check_same_network(model, space)
    small, masks = copy.deepcopy(model), space.masks(shape)
    _resize_layers(small, space, shape, masks)
    return _as_graph(small, space, shape, _unequal_adds(space, shape, masks), masks)


def check_same_network(model: nn.Module, space: Space) -> None:
    """Raise a ValueError if the network is not the one that was traced."""
    state = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in (*space.state, *state):
        if state.get(name) != space.state.get(name):
            here, traced = (_describe(sizes.get(name)) for sizes in (state, space.state))
            raise ValueError(
                f"the network is not the one that was traced: {name!r} is {here}, not {traced}"
            )


def _describe(size: tuple[int, ...] | None) -> str:
    return "absent" if size is None else "x".join(map(str, size)) or "one number"


def _reshape(small: nn.Module, space: Space, shape: Shape) -> nn.Module:
    masks = space.masks(shape)
    _resize_layers(small, space, shape, masks)
    unequal = _unequal_adds(space, shape, masks)
    full = space.masks(space.full)
    numbers_hold = all(masks[i] == full[i] for split in space.splits for i in split.parts)
    cut = [stage for stage in space.stages.values() if shape.depths[stage.name] < len(stage.ends)]
    in_graph = any(stage.form == "graph" for stage in cut) or isinstance(small, fx.GraphModule)
    if numbers_hold and all(add.module for add in unequal) and not in_graph:
        for add in unequal:
            small.set_submodule(str(add.module), _alignment(add, space, masks, small))
        _drop_blocks(small, space, shape)
        return small
    return _as_graph(small, space, shape, unequal, masks)


def _resize_layers(small: nn.Module, space: Space, shape: Shape, masks: Sequence[int]) -> None:
    for layer in space.layers:
        if layer.kind != "constant" and space.keeps(layer, shape):
            outs = kept_channels(space.layouts, masks, layer.outputs)
            ins = kept_channels(space.layouts, masks, layer.inputs)
            resize(small.get_submodule(layer.name), layer.kind, outs, ins)
            if layer.original_only and shape != space.full:
                small.set_submodule(layer.name, nn.Identity())


def _unequal_adds(space: Space, shape: Shape, masks: Sequence[int]) -> list[ResidualAdd]:
    return [add for add in space.adds if space.keeps(add, shape) and _is_unequal(add, masks)]


def _is_unequal(add: ResidualAdd, masks: Sequence[int]) -> bool:
    # the PaddedAdd of a network that was slimmed before always has to be replaced
    is_padded_add = add.node.op == "call_module"
    return is_padded_add or len({masks[i] for i in (*add.operands, add.outputs)}) > 1


def _alignment(add: ResidualAdd, space: Space, masks: Sequence[int], like: nn.Module) -> nn.Module:
    """The module that aligns the operands: a projection of the shortcut, or an add that pads."""
    parameter = next(like.parameters())
    if add.shortcut is not None:
        module: nn.Module = _projection(add, space, masks)
    else:
        total = set_bits(masks[add.outputs])
        new_index = {position: i for i, position in enumerate(total)}
        positions = [[new_index[p] for p in set_bits(masks[part])] for part in add.parts]
        module = PaddedAdd(len(total), positions)
    return module.to(parameter.device, parameter.dtype).train(like.training)


def _projection(add: ResidualAdd, space: Space, masks: Sequence[int]) -> nn.Sequential:
    """A projection that starts as the identity on the channels that both sides have."""
    layer, *norm = add.projection
    ins = torch.tensor(kept_channels(space.layouts, masks, layer.inputs))
    outs = torch.tensor(kept_channels(space.layouts, masks, layer.outputs))
    axes = len(layer.size)
    conv = getattr(nn, f"Conv{axes}d")(len(ins), len(outs), 1, bias=False)
    with torch.no_grad():
        same = (outs[:, None] == ins) & (ins >= 0)
        conv.weight.copy_(same.view(*same.shape, *[1] * axes))
    return nn.Sequential(conv, *(getattr(nn, f"BatchNorm{axes}d")(len(outs)) for _ in norm))


def _drop_blocks(small: nn.Module, space: Space, shape: Shape) -> None:
    for name, depth in shape.depths.items():
        container: Any = small.get_submodule(name)
        for block in space.stages[name].blocks[depth:]:
            child = block.rpartition(".")[2]
            if space.stages[name].form == "sequence":
                del container._modules[child]
            else:
                # a user's forward may go through the list by number
                container._modules[child] = Skipped()


def _as_graph(
    small: nn.Module, space: Space, shape: Shape, unequal: list[ResidualAdd], masks: list[int]
) -> fx.GraphModule:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(space.graph, copies))
    for original, node in copies.items():
        node.meta["source"] = original.name
    for add in unequal:
        _add_submodule(small, _name(add), _alignment(add, space, masks, small))
        _rewire(graph, add, copies)
    for split in space.splits:
        _renumber(split, copies, [masks[part].bit_count() for part in split.parts])
    dropped: set[str] = set()
    for name, depth in shape.depths.items():
        stage = space.stages[name]
        dropped.update(stage.blocks[depth:])
        if depth < len(stage.ends):
            copies[stage.ends[-1]].replace_all_uses_with(copies[stage.ends[depth - 1]])
    for original, node in reversed(copies.items()):
        unused = original.users and not node.users
        if unused or any(inside(original, block) for block in dropped):
            graph.erase_node(node)
    revive_dropout(small, graph)
    return fx.GraphModule(small, graph, type(small).__name__).train(small.training)


def revive_dropout(network: nn.Module, graph: fx.Graph) -> None:
    """Replace F.dropout(x, training=self.training), which was traced as off, by a module."""
    kinds: dict[Any, type[nn.Module]] = {
        F.dropout: nn.Dropout,
        F.dropout2d: nn.Dropout2d,
        F.alpha_dropout: nn.AlphaDropout,
    }
    for node in graph.nodes:
        if node.op == "call_function" and node.target in kinds:
            p = node.args[1] if len(node.args) > 1 else node.kwargs.get("p", 0.5)
            name = f"dropouts.{node.name}"
            _add_submodule(network, name, kinds[node.target](p))
            with graph.inserting_before(node):
                call = graph.call_module(name, (node.all_input_nodes[0],))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            graph.erase_node(node)


def _rewire(graph: fx.Graph, add: ResidualAdd, copies: dict[fx.Node, fx.Node]) -> None:
    name, node = _name(add), copies[add.node]
    sources = [copies[source] for source in add.sources]
    with graph.inserting_before(node):
        if add.shortcut is None:
            call = graph.call_module(name, tuple(sources))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            graph.erase_node(node)
            copies[add.node] = call
            return
        shortcut = sources[add.shortcut]
        call = shortcut.all_input_nodes[0] if add.module else shortcut
        for i in range(len(add.projection)):
            call = graph.call_module(f"{name}.{i}", (call,))
            call.meta = dict(node.meta)
        node.replace_input_with(shortcut, call)


def _renumber(split: Split, copies: dict[fx.Node, fx.Node], sizes: list[int]) -> None:
    """Give a split or slice of channels the sizes that the parts have now."""
    node = copies[split.node]
    if split.own is None:
        node.op, node.target = "call_function", torch.split
        node.args, node.kwargs = (node.all_input_nodes[0], sizes, split.axis), {}
        return
    source, keys = node.args
    keys = list(keys) if isinstance(keys, tuple) else [keys]
    axes = [i for i, key in enumerate(keys) if key is not None]
    start = sum(sizes[: split.own])
    keys[axes[split.axis]] = slice(start, start + sizes[split.own])
    node.args = source, tuple(keys)


def _name(add: ResidualAdd) -> str:
    if add.projection:
        return add.projection[0].name.removesuffix(".0")
    return add.module or f"adds.{add.node.name}"


def _add_submodule(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, _ = name.rpartition(".")
    if parent and parent not in dict(network.named_modules()):
        network.add_module(parent, nn.Module())
    network.set_submodule(name, module)
