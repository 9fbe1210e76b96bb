"""How fast networks are on this machine, timed alternately so that a disturbance affects all."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..costing.latency import Latency
from ..spelling import join_words
from ..timing.runtimes import whole_call
from ..timing.stopwatch import time_calls, using_threads
from . import onnx_file

__all__ = ["describe_speedup", "measure_speed", "time_as_promised"]

LARGE_BATCH = 64
SPEEDUP = 1.05
"""From this factor on a network is called faster, and from its inverse on slower."""


def measure_speed(
    networks: Mapping[str, nn.Module],
    input_shape: tuple[int, int, int],
    *,
    device: torch.device | None = None,
    onnx: Mapping[str, Path] | None = None,
    large_batch: int = LARGE_BATCH,
) -> list[dict[str, Any]]:
    """One row per engine and batch size (1 and a large one), with the timing of each network.

    ``onnx`` are files of the same networks that were written before; they run on the CPU.
    """
    device = device or torch.device("cpu")
    rows = []
    for batch in (1, large_batch):
        x = torch.zeros(batch, *input_shape, device=device)
        calls = {name: whole_call("torch", net, x) for name, net in networks.items()}
        rows.append(_time_row("PyTorch", batch, calls))
    if onnx:
        for batch in (1, large_batch):
            x = torch.zeros(batch, *input_shape)
            calls = {name: partial(onnx_file.session(p), x.numpy()) for name, p in onnx.items()}
            rows.append(_time_row("onnxruntime", batch, calls))
    return rows


def time_as_promised(
    networks: Mapping[str, nn.Module],
    input_shape: tuple[int, ...],
    latency: Latency,
    device: torch.device,
) -> dict[str, Any]:
    """The timing of each network under the conditions of a latency, and what follows for it: the
    time of "after" in units in which "before" takes what it took when the table was measured."""
    conditions = latency.conditions
    x = torch.randn(conditions.batch, *input_shape, device=device)
    with using_threads(conditions.threads):
        calls = {name: whole_call(conditions.runtime, net, x) for name, net in networks.items()}
        found = time_calls(calls)
    share = found["after"].low_ms / found["before"].low_ms
    return {
        "conditions": str(conditions),
        **{name: asdict(timing) for name, timing in found.items()},
        "noise": max(timing.spread for timing in found.values()),
        "ms": share * latency.full / 1e6,
    }


def _time_row(engine: str, batch: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    timings = {name: asdict(timing) for name, timing in time_calls(calls).items()}
    return {"engine": engine, "batch": batch, **timings}


def describe_speedup(rows: list[dict[str, Any]]) -> str:
    """The rows of ``measure_speed`` in words, including where the small network is not faster.

    >>> row = {"engine": "PyTorch", "batch": 1, "before": {"median_ms": 3.0}}
    >>> describe_speedup([{**row, "after": {"median_ms": 2.0}}])
    'The small network is faster in PyTorch at batch 1 (1.50 times as fast).'
    """
    gains = {}
    for row in rows:
        gain = row["before"]["median_ms"] / row["after"]["median_ms"]
        gains[f"in {row['engine']} at batch {row['batch']}"] = gain
    places: dict[str, list[str]] = {"faster": [], "about as fast": [], "slower": []}
    for where, gain in gains.items():
        word = "faster" if gain >= SPEEDUP else "slower" if gain <= 1 / SPEEDUP else "about as fast"
        places[word].append(f"{where} ({gain:.2f} times as fast)")
    sentences = [f"{word} {join_words(where)}" for word, where in places.items() if where]
    sentences = [
        f"{'It' if number else 'The small network'} is {sentence}."
        for number, sentence in enumerate(sentences)
    ]
    if places["about as fast"] or places["slower"]:
        sentences.append(
            "Fewer MACs need not take less time: "
            "calling a small layer can take longer than computing it, and an odd width can use the "
            "processor less well than the full one (widths in multiples of 8, --divisor 8, may "
            "help)."
        )
    return " ".join(sentences)
