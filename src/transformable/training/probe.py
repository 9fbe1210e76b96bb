"""Estimate time and memory of long work from a few of its steps with few images."""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from ..data import Split

__all__ = ["Estimate", "Phase", "extrapolated", "probe"]

FEW = 4
SECONDS = 0.5  # of a step with more images
REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One kind of step of the work."""

    name: str
    step: Callable[[int], object]
    """Does one step with so many images."""
    images: float
    """Images that go through such steps in all."""
    at_once: int
    """Images of one step."""
    decoded: bool = True
    """Whether its images are read from the training set while the steps are done."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What the work will take."""

    seconds: Mapping[str, float]
    """Of each phase."""
    step_seconds: Mapping[str, float]
    """Of one step of each phase, with as many images as it has."""
    memory: int
    """Bytes at the peak: of this process, or on a GPU."""

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def probe(phases: Sequence[Phase], split: Split, device: torch.device) -> Estimate:
    """Do the steps with few images, then with as many as take half a second, or twice as many.

    Time and memory grow with the images, so larger steps follow from these. All phases are done
    with few images before any is done with more: what memory the largest needs is then seen.
    """
    at_once = max(phase.at_once for phase in phases)
    few = min(FEW, at_once)
    slowest = 0.0
    for phase in phases:
        phase.step(few)  # the first takes longer
        slowest = max(slowest, _timed(phase.step, few))
    first_peak = _peak_memory(device)
    more = min(at_once, max(2 * few, int(few * SECONDS / slowest)))
    per_image = {}
    for phase in phases:
        times = [_timed(phase.step, more)]
        if times[0] < SECONDS:  # then the first counts for something, and there is time for others
            times = [_timed(phase.step, more) for _ in range(REPEATS)]
        per_image[phase.name] = statistics.median(times) / more
    memory = extrapolated(few, first_peak, more, _peak_memory(device), at_once)
    reading = _reading_seconds(split, few)
    workers = getattr(split, "workers", 0)
    for phase in phases:
        if phase.decoded:
            own = per_image[phase.name]
            # worker processes decode while this one computes
            per_image[phase.name] = max(own, reading / workers) if workers else own + reading
    return Estimate(
        seconds={phase.name: phase.images * per_image[phase.name] for phase in phases},
        step_seconds={phase.name: phase.at_once * per_image[phase.name] for phase in phases},
        memory=round(memory),
    )


def extrapolated(few: int, first: float, more: int, second: float, images: int) -> float:
    """What is needed for so many images, if ``few`` need ``first`` and ``more`` need ``second``.

    >>> extrapolated(8, 300, 16, 340, 64)
    580.0
    >>> extrapolated(8, 300, 8, 300, 8)
    300
    """
    return second if more == few else second + (images - more) * (second - first) / (more - few)


def _timed(step: Callable[[int], object], images: int) -> float:
    start = time.perf_counter()
    step(images)
    return max(time.perf_counter() - start, 1e-6)


def _reading_seconds(split: Split, images: int) -> float:
    """Time to read and augment one image of a split."""
    start = time.perf_counter()
    x, _ = next(split.shuffled(min(images, len(split)), seed=0, epoch=0))
    return (time.perf_counter() - start) / len(x)


def _peak_memory(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        import resource
    except ImportError:  # Windows has none
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
