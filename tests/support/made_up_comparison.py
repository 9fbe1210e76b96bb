"""Runs of a comparison with made-up numbers."""

from typing import Any

NUMBERS = ("accuracy", "top5", "macs", "params", "cost", "passes", "latency_ms")
TIMES = ("search_seconds", "train_seconds")


def run(method: str, accuracy: float | None, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """A run that is done."""
    row = {"method": method, "budget": "0.5", "seed": seed, "transfer": "init"}
    row |= {"state": "done", "reason": None, "accuracy": accuracy, "top5": 0.99}
    row |= {"macs": 5000000, "params": 136000, "cost": 5000000, "measured": False}
    row |= {"passes": 45}
    row |= {"latency_ms": 1.25, "search_seconds": 12.5, "train_seconds": 180.0, "notes": {}}
    return row | changes


def open_run(method: str, state: str, reason: str | None = None, **changes: Any) -> dict[str, Any]:
    """A run without a result."""
    row = run(method, None, **changes) | {"state": state, "reason": reason}
    return row | dict.fromkeys((*NUMBERS, *TIMES))


def seeds(method: str, *accuracies: float, **changes: Any) -> list[dict[str, Any]]:
    """Runs that are done, one for each accuracy."""
    return [run(method, value, i, **changes) for i, value in enumerate(accuracies)]


def about(**changes: Any) -> dict[str, Any]:
    """What all runs of the comparison have in common."""
    target = {"metric": "macs", "value": 5e6, "low": 4750000, "high": 5250000}
    teacher = {"accuracy": 0.82, "macs": 10000000, "params": 272000, "latency_ms": 2.0}
    facts = {"title": "resnet20 on digits", "command": "tas compare --seeds 3", "metric": "macs"}
    machine = {"torch": "2.13.0", "cpu": "A processor", "threads": 2}
    rest = {"targets": {"0.5": target}, "teacher": {**teacher, "seconds": 300.0}, "passes": 45}
    return {**facts, **rest, "environment": machine, "kind": "compare", **changes}
