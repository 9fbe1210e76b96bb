"""How fast networks are on this machine, timed in alternation so that a disturbance hits all."""

import copy
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..spelling import join_words
from . import onnx_file

__all__ = ["Timing", "describe_machine", "describe_speedup", "measure_speed", "time_calls"]

LARGE_BATCH = 64
ROUNDS = 31
MIN_ROUNDS = 5
SECONDS = 4.0
SPEEDUP = 1.05
"""From this factor on a network is called faster, and from its inverse on slower."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of a call: the median, and the quartiles around it."""

    median_ms: float
    low_ms: float
    high_ms: float


def time_calls(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[str, Timing]:
    """Call each once per round, for ``rounds`` rounds or, after 5 rounds, up to ``seconds``."""
    for call in calls.values():
        for _ in range(3):  # warm-up
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    for number in range(rounds):
        for name in sorted(calls, reverse=number % 2 == 1):
            start = time.perf_counter()
            calls[name]()
            times[name].append(1000 * (time.perf_counter() - start))
        if time.perf_counter() > end and number + 1 >= MIN_ROUNDS:
            break
    found = {}
    for name, values in times.items():
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        found[name] = Timing(median_ms=median, low_ms=low, high_ms=high)
    return found


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
        calls = {name: _torch_call(net, x) for name, net in networks.items()}
        rows.append(_time_row("PyTorch", batch, calls))
    if onnx:
        for batch in (1, large_batch):
            x = torch.zeros(batch, *input_shape)
            calls = {name: partial(onnx_file.session(p), x.numpy()) for name, p in onnx.items()}
            rows.append(_time_row("onnxruntime", batch, calls))
    return rows


def _time_row(engine: str, batch: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, Any]:
    timings = {name: asdict(timing) for name, timing in time_calls(calls).items()}
    return {"engine": engine, "batch": batch, **timings}


def _torch_call(net: nn.Module, x: Tensor) -> Callable[[], object]:
    # a copy, so that all are on one device and in one memory format, wherever they came from
    net = copy.deepcopy(net).to(x.device).eval()
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = x.contiguous(memory_format=torch.channels_last)

    def call() -> object:
        with torch.inference_mode():
            logits = net(x)
        if x.device.type == "cuda":
            torch.cuda.synchronize(x.device)
        return logits

    return call


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
            "a small layer can take longer to call than to compute, and a narrow, odd width can "
            "fill the processor worse than the full one (widths in multiples of 8, --divisor 8, "
            "may help)."
        )
    return " ".join(sentences)


def describe_machine() -> dict[str, Any]:
    """The versions, processor and threads that results were measured with."""
    from .. import __version__

    return {
        "transformable": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _processor(),
        "threads": torch.get_num_threads(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
