"""What runs a network: PyTorch, or onnxruntime; each timed as a whole and by node."""

import copy
import importlib.util
import io
import json
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.conv import _ConvNd

from ..layers import in_order, memory_format_for
from ..settings import Runtime
from ..user_code import first_line
from .stopwatch import lower_quartile

__all__ = ["check_installed", "node_times", "whole_call"]

WARM_UP = 2
MATRIX_OPERATIONS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
FUSED_OPERATIONS = ("BatchNormalization", "Relu", "Clip", "LeakyRelu", "Sigmoid", "HardSwish")


def check_installed(runtime: Runtime) -> None:
    """Raise a ValueError if a runtime is not installed."""
    needed = {"torch": (), "onnxruntime": ("onnx", "onnxruntime")}[runtime]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"the runtime {runtime} is not installed (no {missing[0]}); "
            "pip install 'transformable[export]'"
        )


def whole_call(runtime: Runtime, network: nn.Module, x: Tensor) -> Callable[[], object]:
    """A function that runs a network once on a batch."""
    if runtime == "onnxruntime":
        session = _session(_onnx(network, x))
        images = x.cpu().numpy()
        return lambda: session.run(None, {"images": images})
    # a copy, so that all are on one device and in one memory format, wherever they came from
    network, x = _for_torch(network, x)

    def call() -> object:
        with torch.inference_mode():
            outputs = network(x)
        if x.device.type == "cuda":
            torch.cuda.synchronize(x.device)
        return outputs

    return call


def node_times(
    runtime: Runtime, network: fx.GraphModule, x: Tensor, rounds: int
) -> dict[str, float]:
    """The time of each node of a network in a call, in nanoseconds: the lower quartile of calls.

    With onnxruntime, which fuses nodes, only those that it has kept or others were fused into.
    """
    if runtime == "onnxruntime":
        return _profiled(network, x, rounds)
    times: Mapping[str, list[float]] = defaultdict(list)
    network, x = _for_torch(network, x)
    steps = _Steps(network, x.device)
    with torch.inference_mode():
        for number in range(rounds + WARM_UP):
            for name, nanoseconds in steps.run(x).items():
                if number >= WARM_UP:
                    times[name].append(nanoseconds)
    return {name: lower_quartile(values) for name, values in times.items()}


def _for_torch(network: Any, x: Tensor) -> tuple[Any, Tensor]:
    network = copy.deepcopy(network).to(x.device).eval().requires_grad_(False)
    if x.ndim == 4:
        network.to(memory_format=torch.channels_last)
    order = memory_format_for(network, x)
    return network.to(memory_format=order), in_order(x, order)


class _Steps:
    """The nodes of a network, one after the other; each tensor is freed after its last use."""

    def __init__(self, network: fx.GraphModule, device: torch.device) -> None:
        self.device = device
        last: dict[fx.Node, fx.Node] = {}
        for node in network.graph.nodes:
            last |= dict.fromkeys(node.all_input_nodes, node)
        self.steps = [
            (node, _function(network, node), [n for n in node.all_input_nodes if last[n] is node])
            for node in network.graph.nodes
        ]

    def run(self, x: Tensor) -> dict[str, float]:
        values: dict[fx.Node, Any] = {}
        clocks: dict[str, Any] = {}
        for node, function, done in self.steps:
            if node.op == "placeholder":
                # what else a network may be given has a default
                values[node] = x if not values else node.args[0] if node.args else None
            elif node.op == "get_attr":
                values[node] = function()
            elif node.op != "output":
                args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
                clock = _Clock(self.device)
                values[node] = function(*args, **kwargs)
                clocks[node.name] = clock.stop()
                del args, kwargs
                for other in done:
                    del values[other]
        return {name: clock.nanoseconds() for name, clock in clocks.items()}


def _function(network: fx.GraphModule, node: fx.Node) -> Callable[..., Any]:
    match node.op:
        case "call_module":
            return network.get_submodule(str(node.target))
        case "call_method":
            name = str(node.target)
            return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)
        case "get_attr":
            owner, _, name = str(node.target).rpartition(".")
            return lambda: getattr(network.get_submodule(owner), name)
        case "call_function":
            assert callable(node.target)
            return node.target
    return lambda: None


class _Clock:
    """The time of a few operations: on a GPU between two events, which wait for nothing."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        if self.on_gpu:
            make: Any = torch.cuda.Event
            self.events = [make(enable_timing=True) for _ in range(2)]
            self.events[0].record()
        else:
            self.start = time.perf_counter_ns()

    def stop(self) -> "_Clock":
        if self.on_gpu:
            self.events[1].record()
        else:
            self.elapsed = time.perf_counter_ns() - self.start
        return self

    def nanoseconds(self) -> float:
        if not self.on_gpu:
            return float(self.elapsed)
        self.events[1].synchronize()
        return 1e6 * float(self.events[0].elapsed_time(self.events[1]))


def _onnx(network: nn.Module, x: Tensor) -> bytes:
    """The network as an ONNX file.

    The older exporter is twenty times as quick as the one that `tas export` uses, and what
    onnxruntime makes of the two files takes the same time.
    """
    file: Any = io.BytesIO()
    network = copy.deepcopy(network).cpu().eval()
    try:
        with warnings.catch_warnings(action="ignore"):
            torch.onnx.export(network, (x.cpu(),), file, dynamo=False, input_names=["images"])
    except Exception as error:  # exporters raise many kinds
        reason = first_line(error)
        raise ValueError(f"the network cannot be written for onnxruntime: {reason}") from error
    content: bytes = file.getvalue()
    return content


def _session(content: bytes, profile: Path | None = None) -> Any:
    """A session of onnxruntime with as many threads as torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    providers = ["CPUExecutionProvider"]
    return onnxruntime.InferenceSession(content, options, providers=providers)


def _profiled(network: fx.GraphModule, x: Tensor, rounds: int) -> dict[str, float]:
    """The times of convolutions and linear layers, with what was fused into them."""
    content, images = _onnx(network, x), x.cpu().numpy()
    sources = _matrix_sources(network, content)
    with tempfile.TemporaryDirectory() as folder:
        session = _session(content, Path(folder) / "profile")
        for _ in range(rounds + WARM_UP):
            session.run(None, {"images": images})
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    times: Mapping[str, list[float]] = defaultdict(list)
    for event in events:
        name = event["name"].removesuffix("_kernel_time").removesuffix("_nchwc")
        if event.get("cat") == "Node" and name != event["name"] and name in sources:
            times[sources[name]].append(1e3 * event["dur"])
    return {name: lower_quartile(values[WARM_UP:]) for name, values in times.items()}


def _matrix_sources(network: fx.GraphModule, content: bytes) -> dict[str, str]:
    """For each node and tensor of an ONNX file that a convolution or linear layer can be fused
    into, the node of the network that it comes from; nothing if the two do not correspond."""
    import onnx

    layers = [
        node.name
        for node in network.graph.nodes
        if node.op == "call_module"
        and isinstance(network.get_submodule(str(node.target)), _ConvNd | nn.Linear)
    ]
    nodes = onnx.load_from_string(content).graph.node
    if sum(node.op_type in MATRIX_OPERATIONS for node in nodes) != len(layers):
        return {}
    sources: dict[str, str] = {}
    order = iter(layers)
    for node in nodes:
        source = next(order) if node.op_type in MATRIX_OPERATIONS else None
        if source is None and node.op_type in FUSED_OPERATIONS:
            source = sources.get(node.input[0])
        if source is not None:
            sources |= dict.fromkeys((node.name, *node.output), source)
    return sources
