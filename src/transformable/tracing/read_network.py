"""Reading a network from its input to its output."""

import threading

from torch import fx, nn

from .layouts import Fixed, Last
from .network_graph import block_of, record_training
from .operations import handler
from .reader import Layer, Reading

__all__ = ["OUTPUT", "read"]

OUTPUT = "it is the network's output"
# while it follows a network, torch.fx changes how every module is called
ONE_AT_A_TIME = threading.RLock()


def read(model: nn.Module, input_shape: tuple[int, int, int], residual: str) -> Reading:
    """All layers, joins and layouts of the network."""
    with ONE_AT_A_TIME:
        return _read(model, input_shape, residual)


def _read(model: nn.Module, input_shape: tuple[int, int, int], residual: str) -> Reading:
    reading = Reading(model, input_shape, residual)
    ends = {stage.ends[-1]: stage for stage in reading.stages.values()}
    for node in reading.graph.nodes:
        inputs = node.all_input_nodes
        reading.ancestors[node] = set(inputs).union(*(reading.ancestors[i] for i in inputs))
        reading.depth[node] = max((reading.depth[i] for i in inputs), default=0)
        index = _visit(reading, node)
        if index is not None:
            reading.layout[node] = index
        if node in ends:
            parts = tuple(reading.layout[end] for end in ends[node].ends)
            last = Last(reading.size(parts[0]), ends[node].name, parts)
            reading.layout[node] = reading.new(last)
    _freeze_what_training_reads(reading)
    _add_loose_parameters(reading)
    return reading


def _freeze_what_training_reads(reading: Reading) -> None:
    """Layers that are there only in training (a second head, say) are not in the graph: what they
    read keeps its width."""
    called = {str(node.target) for node in reading.graph.nodes if node.op == "call_module"}
    leaves = [(name, m) for name, m in reading.modules.items() if not any(m.children())]
    unseen = {n for n, m in leaves if any(True for _ in m.parameters()) and n not in called}
    if not unseen or isinstance(reading.model, fx.GraphModule):
        return
    graph = record_training(reading.model)
    makers = {name: reading.layout[node] for name, node in reading.maker.items()}
    for node in graph.nodes if graph else ():
        if node.op != "call_module" or str(node.target) not in unseen:
            continue
        reason = f"it feeds {str(node.target)!r}, which is there only in training"
        waiting, seen = list(node.all_input_nodes), set()
        while waiting:
            source = waiting.pop()
            if source in seen:
                continue
            seen.add(source)
            if source.op == "call_module" and str(source.target) in makers:
                reading.ties.freeze(makers[str(source.target)], reason)
            else:
                waiting += source.all_input_nodes


def _visit(reading: Reading, node: fx.Node) -> int | None:
    shape = reading.shape(node)
    if node.op == "placeholder":
        return reading.new(Fixed(shape[1])) if len(shape) > 1 else None
    if node.op == "output":
        several = len(node.all_input_nodes) > 1
        reading.freeze(node.all_input_nodes, "it is one of several outputs" if several else OUTPUT)
        return None
    if node.op == "get_attr":
        return None
    index = handler(reading, node)(reading, node)
    if index is not None and (len(shape) < 2 or reading.size(index) != shape[1]):
        return reading.unknown(node)
    return index


def _add_loose_parameters(reading: Reading) -> None:
    """Parameters outside of the layers that were read cost what they cost."""
    for name, parameter in reading.model.named_parameters():
        owner = name.rpartition(".")[0]
        if not any(f"{owner}.".startswith(f"{layer}.") for layer in reading.layers):
            index = reading.new(Fixed(1))
            reading.layers[name] = Layer(
                name=name,
                kind="constant",
                inputs=index,
                outputs=index,
                block=block_of(reading.stages, name),
                params=parameter.numel(),
                order=len(reading.order),
            )
