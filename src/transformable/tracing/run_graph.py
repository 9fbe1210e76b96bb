"""Runs the graph of a network once: the output and cost of each node, and what it overwrites."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from ..user_code import first_line
from .network_graph import described

__all__ = ["NodeOutput", "redirect_overwritten", "run_once"]


@dataclass(frozen=True)
class NodeOutput:
    """The output of a node and its effects."""

    shape: tuple[int, ...]
    """Empty if the output is no tensor."""
    macs: int
    """For one image."""
    overwrites: tuple[fx.Node, ...]
    """The inputs that it changes in place."""
    memory: fx.Node
    """The first node whose memory the output is in."""
    view: tuple[Any, ...]
    """Which part of that memory it is: equal for two names of one tensor."""
    parts: tuple[tuple[int, ...], ...] = ()
    """The shapes of the tensors, if the output is several."""


class _Runner(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=True)
        self.outputs: dict[fx.Node, NodeOutput] = {}

    def run_node(self, n: fx.Node) -> Any:
        inputs = {source: self.env[source] for source in n.all_input_nodes}
        versions = {source: _versions(value) for source, value in inputs.items()}
        with FlopCounterMode(display=False) as counter:
            value = super().run_node(n)
        shape = tuple(value.shape) if isinstance(value, Tensor) else ()
        memory, view = n, _view(value)
        for source, given in inputs.items():
            if _memory(given) & _memory(value):
                memory = self.outputs[source].memory
        # a dropout that works in place does so in training only
        in_place = n.op == "call_module" and getattr(
            self.module.get_submodule(str(n.target)), "inplace", False
        )
        overwrites = tuple(
            source
            for source, given in inputs.items()
            if _versions(given) != versions[source] or (in_place and _view(given) == view)
        )
        several = value if isinstance(value, (list, tuple)) else ()
        parts = tuple(tuple(part.shape) for part in several if isinstance(part, Tensor))
        # two operations per multiply-accumulate, two images
        macs = counter.get_total_flops() // 4
        self.outputs[n] = NodeOutput(shape, macs, overwrites, memory, view, parts)
        return value


def run_once(
    model: nn.Module, graph: fx.Graph, input_shape: tuple[int, ...]
) -> dict[fx.Node, NodeOutput]:
    """Run the graph on two images, so that the batch cannot be taken for an axis of size 1.

    It must compute what the network computes, and the network the same whenever it is called.
    """
    like = next(model.parameters(), torch.empty(0))
    body = fx.GraphModule(model, graph)
    runner = _Runner(body)
    with (
        torch.inference_mode(False),
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        _attention_in_parts(),
    ):
        try:
            generator = torch.Generator().manual_seed(0)
            images = torch.randn(2, *input_shape, generator=generator).to(like)
            outputs = runner.run(images.clone())
        except Exception as error:
            message = f"the network does not take an input of {input_shape}: {first_line(error)}"
            raise ValueError(message) from error
        own = model(images.clone())
        if not _close(own, model(images.clone())):
            raise ValueError(
                f"{_random_part(body, images)} is random in evaluation mode too: two passes of "
                "the same images differ; make it depend on self.training"
            )
        if not _close(own, outputs):
            raise ValueError(
                f"the graph that torch.fx traced does not compute what {type(model).__name__} "
                "computes: has the network a hook, or a forward that changes from call to call?"
            )
    return runner.outputs


@contextmanager
def _attention_in_parts() -> Iterator[None]:
    """Computes attention as separate products: the counter knows the fused operations on some
    devices only."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def redirect_overwritten(graph: fx.Graph, outputs: Mapping[fx.Node, NodeOutput]) -> None:
    """Let nodes that read a tensor after an operation has changed it in place read the result of
    that operation, so that the graph is explicit and stays correct out of place."""
    order = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        for changed in outputs[node].overwrites:
            for name, later in _names_read_later(node, changed, outputs, order):
                views = {outputs[n].view for n in (node, changed, name)}
                if len(views) > 1 or not outputs[name].shape:
                    raise ValueError(
                        f"{described(node)} works in place on a part of a tensor that "
                        f"{described(later[0])} reads in another form; do one of them on a copy"
                    )
                name.replace_all_uses_with(node, later.__contains__)


def _names_read_later(
    node: fx.Node,
    changed: fx.Node,
    outputs: Mapping[fx.Node, NodeOutput],
    order: Mapping[fx.Node, int],
) -> Iterator[tuple[fx.Node, list[fx.Node]]]:
    """The nodes before `node` whose outputs are in the memory that it changes, each with the nodes
    that read it afterwards."""
    memory = outputs[changed].memory
    for name in order:
        if name is node:
            return
        later = [user for user in name.users if order[user] > order[node]]
        if later and outputs[name].memory is memory:
            yield name, later


def _random_part(body: fx.GraphModule, images: Tensor) -> str:
    """The first node whose output differs in a second run, or the network."""
    runs = []
    for _ in range(2):
        runner = fx.Interpreter(body, garbage_collect_values=False)
        runner.run(images.clone())
        runs.append(runner.env)
    for node, value in runs[0].items():
        if not _close(value, runs[1][node]):
            return described(node)
    return "the network"


def _close(one: Any, two: Any) -> bool:
    """Whether the tensors of two outputs are equal up to rounding."""
    ones, twos = _tensors(one), _tensors(two)
    if [t.shape for t in ones] != [t.shape for t in twos]:
        return False
    return all(
        torch.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True)
        for a, b in zip(ones, twos, strict=True)
    )


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _memory(value: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in _tensors(value) if tensor.numel()}


def _view(value: Any) -> tuple[Any, ...]:
    return tuple((t.data_ptr(), tuple(t.shape), t.stride()) for t in _tensors(value))


def _versions(value: Any) -> list[int]:
    return [tensor._version for tensor in _tensors(value)]
