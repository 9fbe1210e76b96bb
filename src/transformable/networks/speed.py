"""How fast networks are on this machine: timed in turn, so that what disturbs one disturbs all."""

import copy
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

__all__ = ["Timing", "faster", "latency", "machine", "measure", "timed"]

BATCHES = (1, 64)
ROUNDS = 31
SECONDS = 4.0
NOTICEABLE = 1.05


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of a call: the median, and the quartiles around it."""

    median_ms: float
    low_ms: float
    high_ms: float


def timed(
    calls: Mapping[str, Callable[[], object]], *, rounds: int = ROUNDS, seconds: float = SECONDS
) -> dict[str, Timing]:
    """Call each in turn, for so many rounds, or until so many seconds are over after five.

    >>> sorted(timed({"a": lambda: None, "b": lambda: time.sleep(0.002)}, rounds=5).items())[0]
    ('a', Timing(median_ms=..., low_ms=..., high_ms=...))
    """
    for call in calls.values():
        for _ in range(3):  # the first calls plan their work
            call()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    for number in range(rounds):
        for name in sorted(calls, reverse=number % 2 == 1):
            start = time.perf_counter()
            calls[name]()
            times[name].append(1000 * (time.perf_counter() - start))
        if time.perf_counter() > end and number >= 4:
            break
    return {name: _timing(values) for name, values in times.items()}


def _timing(values: list[float]) -> Timing:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(median_ms=median, low_ms=low, high_ms=high)


def measure(
    networks: Mapping[str, nn.Module],
    input_shape: tuple[int, int, int],
    *,
    device: torch.device | None = None,
    onnx: Mapping[str, Path] | None = None,
) -> list[dict[str, Any]]:
    """For each engine and batch size the timing of each network; onnxruntime's on the CPU."""
    device = device or torch.device("cpu")
    rows = []
    for batch in BATCHES:
        times = latency(networks, input_shape, device=device, batch=batch)
        rows.append({"engine": "PyTorch", "batch": batch, **_rows(times)})
    for batch in BATCHES if onnx else ():
        assert onnx is not None
        calls = {name: _onnx_call(path, batch, input_shape) for name, path in onnx.items()}
        rows.append({"engine": "onnxruntime", "batch": batch, **_rows(timed(calls))})
    return rows


def latency(
    networks: Mapping[str, nn.Module],
    input_shape: tuple[int, int, int],
    *,
    device: torch.device,
    batch: int = 1,
) -> dict[str, Timing]:
    """The timing of each network in PyTorch, for a batch of this size."""
    # copies, all in one place and one memory format, wherever the networks came from
    ready = {name: _ready(net, device) for name, net in networks.items()}
    return timed(
        {name: _torch_call(net, batch, input_shape, device) for name, net in ready.items()}
    )


def _rows(timings: Mapping[str, Timing]) -> dict[str, Any]:
    return {name: asdict(timing) for name, timing in timings.items()}


def _ready(net: nn.Module, device: torch.device) -> nn.Module:
    ready = copy.deepcopy(net).to(device).eval()
    ready.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return ready


def _torch_call(
    net: nn.Module, batch: int, input_shape: tuple[int, int, int], device: torch.device
) -> Callable[[], object]:
    x = torch.zeros(batch, *input_shape, device=device)
    x = x.contiguous(memory_format=torch.channels_last)

    def call() -> object:
        with torch.inference_mode():
            logits = net(x)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return logits

    return call


def _onnx_call(path: Path, batch: int, input_shape: tuple[int, int, int]) -> Callable[[], object]:
    from .onnx_file import session

    run = session(path)
    x = torch.zeros(batch, *input_shape).numpy()
    return lambda: run(x)


def faster(rows: list[dict[str, Any]]) -> str:
    """What the timings say in words, also if they say that nothing was gained.

    >>> row = {"engine": "PyTorch", "batch": 1, "before": {"median_ms": 3.0}}
    >>> faster([{**row, "after": {"median_ms": 2.0}}])
    'The small network is faster: 1.50 times in PyTorch at batch 1.'
    """
    gains = {
        f"in {row['engine']} at batch {row['batch']}": row["before"]["median_ms"]
        / row["after"]["median_ms"]
        for row in rows
    }
    fast = [f"{gain:.2f} times {where}" for where, gain in gains.items() if gain >= NOTICEABLE]
    slow = [f"{where} ({gain:.2f})" for where, gain in gains.items() if gain < NOTICEABLE]
    sentences = [f"The small network is faster: {_list(fast)}."] if fast else []
    if slow:
        sentences.append(
            f"It is not faster {_list(slow)}. Fewer MACs need not take less time: a small layer "
            "can take longer to call than to compute, and a narrow, odd width can fill the "
            "processor worse than the full one (widths in multiples of 8, --divisor 8, may help)."
        )
    return " ".join(sentences)


def _list(words: list[str]) -> str:
    """
    >>> _list(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def machine() -> dict[str, Any]:
    """What the numbers were measured with."""
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
