"""Latency: timed in turn, and told as it is."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformable.networks import onnx_file
from transformable.networks.speed import describe_speedup, measure_speed
from transformable.timing.stopwatch import time_calls


def test_calls_are_interleaved_and_their_order_turns() -> None:
    order: list[str] = []
    calls = {name: (lambda name=name: order.append(name)) for name in ("a", "b")}
    time_calls(calls, rounds=6, seconds=60)
    assert "".join(order) == "aaabbb" + "abba" * 3


def test_a_slower_call_has_the_larger_median_between_its_quartiles() -> None:
    found = time_calls({"quick": lambda: None, "slow": lambda: time.sleep(0.003)}, rounds=7)
    assert found["slow"].median_ms >= 3 > found["quick"].median_ms
    for timing in found.values():
        assert timing.low_ms <= timing.median_ms <= timing.high_ms


def test_it_ends_when_the_time_is_up() -> None:
    calls: list[int] = []
    time_calls({"a": lambda: calls.append(1) or time.sleep(0.01)}, rounds=1000, seconds=0.05)  # type: ignore[func-returns-value]
    assert 3 + 5 <= len(calls) < 100


def test_networks_are_timed_at_each_batch_in_evaluation_mode() -> None:
    seen: list[tuple[int, bool, bool]] = []

    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((len(x), self.training, torch.is_grad_enabled()))
            return x

    rows = measure_speed({"before": Net(), "after": Net()}, (1, 2, 2))
    assert [(row["engine"], row["batch"]) for row in rows] == [("PyTorch", 1), ("PyTorch", 64)]
    assert set(seen) == {(1, False, False), (64, False, False)}


def row(batch: int, before: float, after: float) -> dict[str, Any]:
    sides = {"before": {"median_ms": before}, "after": {"median_ms": after}}
    return {"engine": "PyTorch", "batch": batch, **sides}


def test_what_is_not_faster_is_said() -> None:
    said = describe_speedup([row(1, 2.0, 2.0), row(64, 10.0, 5.0)])
    assert said.startswith(
        "The small network is faster in PyTorch at batch 64 (2.00 times as fast). "
        "It is about as fast in PyTorch at batch 1 (1.00 times as fast). Fewer MACs need not"
    )
    assert "Fewer MACs" not in describe_speedup([row(64, 10.0, 5.0)])
    assert describe_speedup([row(1, 1.0, 2.0)]).startswith(
        "The small network is slower in PyTorch at batch 1 (0.50 times as fast)."
    )
    assert describe_speedup([row(1, 1.04, 1.0)]).startswith(
        "The small network is about as fast in PyTorch at batch 1 (1.04 times as fast)."
    )


def test_onnx_files_that_were_written_before_are_timed(tmp_path: Path) -> None:
    networks = {"before": nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), "after": nn.Flatten()}
    files = {name: tmp_path / f"{name}.onnx" for name in networks}
    for name, network in networks.items():
        onnx_file.write(network, (1, 2, 2), files[name])
        assert network.training
    written = {name: path.read_bytes() for name, path in files.items()}
    rows = measure_speed(networks, (1, 2, 2), onnx=files)
    assert [(row["engine"], row["batch"]) for row in rows[2:]] == [
        ("onnxruntime", 1),
        ("onnxruntime", 64),
    ]
    assert all(set(row) == {"engine", "batch", "before", "after"} for row in rows)
    assert {name: path.read_bytes() for name, path in files.items()} == written
