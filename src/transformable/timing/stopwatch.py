"""Time calls alternately, so that a disturbance affects all of them."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

__all__ = ["Timing", "check_threads", "lower_quartile", "time_calls", "using_threads"]

ROUNDS = 31
MIN_ROUNDS = 5
SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Milliseconds of a call: the median, and the quartiles around it.

    Latencies are compared by the lower quartile: what else runs on a machine only adds to a time.
    """

    median_ms: float
    low_ms: float
    high_ms: float

    @property
    def spread(self) -> float:
        """The distance of the quartiles, as a share of the median."""
        return (self.high_ms - self.low_ms) / self.median_ms


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
        low, median, high = _quartiles(values)
        found[name] = Timing(median_ms=median, low_ms=low, high_ms=high)
    return found


def lower_quartile(times: Sequence[float]) -> float:
    """That of the times of several calls.

    >>> lower_quartile([1.0, 1.1, 1.2, 9.0, 9.0])
    1.1
    """
    return _quartiles(times)[0]


def _quartiles(times: Sequence[float]) -> list[float]:
    return statistics.quantiles(times, n=4, method="inclusive")


def check_threads(count: int) -> None:
    """Raise a ValueError if this machine has fewer processors than threads are asked for: they
    would wait for each other, for minutes."""
    # those that this process may use, where the system says so
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    processors = len(allowed) or os.cpu_count() or 1
    if count > processors:
        raise ValueError(
            f"latency-threads must be at most {processors} on this machine, not {count}"
        )


@contextmanager
def using_threads(count: int) -> Iterator[None]:
    """Within the context, torch computes with this many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
