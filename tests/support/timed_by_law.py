"""A machine without a clock: a network takes what a law says."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, fx, nn

import transformable as tas
from transformable.networks import speed
from transformable.slimming.slim import slim_graph
from transformable.timing import build, samples, timer
from transformable.timing.stopwatch import Timing

OVERHEAD, CALL = 2_000.0, 70.0


def law(module: Any, x: Tensor, runtime: str) -> float:
    """Nanoseconds: steps of 4 channels in convolutions, straight lines in all else; onnxruntime
    takes three times as long where the inputs of a convolution are no multiple of 4."""
    if isinstance(module, nn.Conv2d):
        steps = -(-module.out_channels // 4) * 4
        work = steps * module.in_channels // module.groups * module.kernel_size[0] ** 2
        times = 3.0 if runtime == "onnxruntime" and module.in_channels % 4 else 1.0
        return 300.0 + times * work * x.shape[-1] * x.shape[-2] / 40
    return 50.0 + x.numel() / 40


def times_by_law(network: fx.GraphModule, x: Tensor, runtime: str) -> dict[str, float]:
    """The time of each node."""
    found: dict[str, float] = {}

    class Runner(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            args, _ = self.fetch_args_kwargs_from_env(n)
            if n.op.startswith("call") and isinstance(args[0], Tensor):
                module = network.get_submodule(str(n.target)) if n.op == "call_module" else None
                found[n.name] = law(module, args[0], runtime)
                if type(module).__name__ == "PaddedAdd":
                    found[n.name] *= 1.5
            return super().run_node(n)

    with torch.no_grad():
        Runner(network.eval()).run(x)
    return found


def time_by_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """No clock: a network takes what the law says, and a little for each call of a part."""

    def whole(runtime: str, network: nn.Module, x: Tensor) -> Any:
        traced = tas.Space.trace(network, tuple(x.shape[1:]))
        nodes = times_by_law(slim_graph(network, traced, traced.full), x, runtime)
        return SimpleNamespace(ms=(OVERHEAD + sum(CALL + 1.1 * t for t in nodes.values())) / 1e6)

    def timed(calls: Mapping[str, Any], **_: Any) -> dict[str, Timing]:
        # what is not a network takes a millisecond
        times = {name: getattr(call, "ms", 1.0) for name, call in calls.items()}
        return {n: Timing(median_ms=t, low_ms=t, high_ms=t) for n, t in times.items()}

    for module in (build, samples, speed, timer):
        if hasattr(module, "whole_call"):
            monkeypatch.setattr(module, "whole_call", whole)
        monkeypatch.setattr(module, "time_calls", timed)
    monkeypatch.setattr(samples, "node_times", lambda by, net, x, rounds: times_by_law(net, x, by))
    monkeypatch.setattr(samples, "RANDOM", 8)
    monkeypatch.setattr(build, "LEVELS", 3)
