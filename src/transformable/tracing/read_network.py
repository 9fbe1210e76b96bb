"""Reads a network node by node, from its input to its output."""

import threading
from collections.abc import Collection

from torch import fx, nn

from .conditions import tensors_asked_for_channels
from .layouts import FixedWidth, StageOutput
from .network_graph import described
from .operations import read_operation
from .reader import Layer, NetworkReader
from .stages import Stage

__all__ = ["OUTPUT", "read_network"]

OUTPUT = "it is the network's output"
# while torch.fx traces, it patches how every module of the process is called
_TRACING = threading.RLock()


def read_network(
    model: nn.Module, input_shape: tuple[int, ...], residual: str, leaf: Collection[str] = ()
) -> NetworkReader:
    """Find all layers, residual adds and layouts of the network."""
    with _TRACING:
        reader = NetworkReader(model, input_shape, residual, leaf)
        while not _read_nodes(reader):
            reader.start({**reader.ties.cuts, **reader.ties.wanted})
        _freeze_inputs_of_training_layers(reader)
        _freeze_inputs_of_conditions(reader)
        _add_other_parameters(reader)
        return reader


def _read_nodes(reader: NetworkReader) -> bool:
    """Read all nodes; False if they have to be read again."""
    ends = {stage.ends[-1]: stage for stage in reader.stages.values()}
    for node in reader.graph.nodes:
        inputs = node.all_input_nodes
        reader.ancestors[node] = set(inputs).union(*(reader.ancestors[i] for i in inputs))
        reader.depth[node] = max((reader.depth[i] for i in inputs), default=0)
        index = _read_node(reader, node)
        if index is not None:
            reader.layout[node] = index
        if node in ends and not _end_stage(reader, ends[node]):
            return False
    return not reader.ties.wanted


def _end_stage(reader: NetworkReader, stage: Stage) -> bool:
    """The layout of a stage's output; False if its depth cannot be a choice."""
    parts = tuple(reader.layout[end] for end in stage.ends)
    ties, node = reader.ties, stage.ends[-1]
    equal = all(ties.same(parts[0], other) for other in parts[1:])
    if not equal and (reader.axis_of(node) != 1 or any(map(ties.has_concat, parts))):
        # outputs of different depths could not be aligned
        del reader.stages[stage.name]
        return False
    output = StageOutput(reader.size(parts[0]), stage.name, parts)
    reader.layout[node] = reader.new(output)
    return True


def _freeze_inputs_of_training_layers(reader: NetworkReader) -> None:
    """Layers that run in training mode only (an auxiliary head) are not in the graph, so the widths
    of their inputs must not change."""
    called = {str(node.target) for node in reader.graph.nodes if node.op == "call_module"}
    makers = {str(node.target): reader.layout[node] for node in reader.maker.values()}
    for node in reader.training_graph.nodes:
        if node.op != "call_module" or str(node.target) in called:
            continue
        if not any(True for _ in reader.module(node).parameters()):
            continue
        reason = f"it feeds {str(node.target)!r}, which is there only in training"
        waiting, seen = list(node.all_input_nodes), set()
        while waiting:
            source = waiting.pop()
            if source in seen:
                continue
            seen.add(source)
            if source.op == "call_module" and str(source.target) in makers:
                reader.ties.freeze(makers[str(source.target)], reason)
            else:
                waiting += source.all_input_nodes


def _freeze_inputs_of_conditions(reader: NetworkReader) -> None:
    """A condition on a number of channels was decided for the original number."""
    for node in reader.conditions:
        tensors = tensors_asked_for_channels(node, reader.shape, reader.axis_of)
        reader.freeze(tensors, f"{described(node)} depends on its number of channels")


def _read_node(reader: NetworkReader, node: fx.Node) -> int | None:
    shape = reader.shape(node)
    if node.op == "placeholder":
        return reader.new(FixedWidth(shape[1])) if len(shape) > 1 else None
    if node.op == "output":
        several = len(node.all_input_nodes) > 1
        reader.freeze(node.all_input_nodes, "it is one of several outputs" if several else OUTPUT)
        return None
    if node.op == "get_attr":
        return None
    index = read_operation(reader, node)
    axis = reader.axis_of(node)
    if index is not None and (len(shape) <= axis or reader.size(index) != shape[axis]):
        return reader.unknown(node)
    return index


def _add_other_parameters(reader: NetworkReader) -> None:
    """Add parameters outside of the layers that were read as constants."""
    for name, parameter in reader.model.named_parameters():
        owner = name.rpartition(".")[0]
        if not any(f"{owner}.".startswith(f"{layer}.") for layer in reader.layers):
            index = reader.new(FixedWidth(1))
            reader.layers[name] = Layer(
                name=name,
                kind="constant",
                inputs=index,
                outputs=index,
                block=reader.block_of(name),
                params=parameter.numel(),
                order=len(reader.order),
            )
