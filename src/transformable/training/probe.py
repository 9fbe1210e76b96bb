"""Estimate time and memory of long work from a few of its steps with few images."""

import contextlib
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..data import Split
from .memory import return_freed_memory

__all__ = ["Estimate", "Phase", "extrapolated", "peak_memory", "probe"]

FEW = 4
MORE = 32  # images that are read, to tell what one takes from what a batch takes
SECONDS = 2.0  # of a step with more images
SHORT = 0.5
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
    epochs: float = 1
    """How often reading begins anew, with processes that decode photos, if there are any."""


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


def probe(make: Callable[[], Sequence[Phase]], split: Split, device: torch.device) -> Estimate:
    """Do a few steps of each phase of a part of the work; larger steps follow from these.

    What the part needs is made here and freed at the end, so that the next part finds the memory
    that it would find in the work itself.
    """
    tried = [(phase, *_tried(phase, device)) for phase in make()]
    start, reading = _reading_seconds(split)
    workers = getattr(split, "workers", 0)
    per_image, starts = {}, {}
    for phase, own, _ in tried:
        if phase.decoded:
            # worker processes decode while this one computes
            own = max(own, reading / workers) if workers else own + reading
        per_image[phase.name] = own
        starts[phase.name] = start * phase.epochs if phase.decoded else 0.0
    return Estimate(
        seconds={
            phase.name: starts[phase.name] + phase.images * per_image[phase.name]
            for phase, _, _ in tried
        },
        step_seconds={phase.name: phase.at_once * per_image[phase.name] for phase, _, _ in tried},
        memory=round(max(memory for _, _, memory in tried)),
    )


def _tried(phase: Phase, device: torch.device) -> tuple[float, float]:
    """Seconds for an image, and bytes at the peak of a step.

    The step is done with few images, then with as many as take two seconds, or twice as many.
    """
    few = min(FEW, phase.at_once)
    _forget_peak(device)
    phase.step(few)  # the first takes longer
    seconds = _timed(phase.step, few)
    first_peak = peak_memory(device)
    more = min(phase.at_once, max(2 * few, int(few * SECONDS / seconds)))
    times = [_timed(phase.step, more)]
    if times[0] < SHORT:  # then the first counts for something, and there is time for others
        times = [_timed(phase.step, more) for _ in range(REPEATS)]
    memory = extrapolated(few, first_peak, more, peak_memory(device), phase.at_once)
    return statistics.median(times) / more, memory


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


def _reading_seconds(split: Split) -> tuple[float, float]:
    """Time until an epoch has its first batch, and time to read and augment one more image."""

    def read(images: int) -> object:
        return next(split.shuffled(images, seed=0, epoch=0))

    few, more = (min(count, len(split)) for count in (FEW, MORE))
    read(more)  # files that were not read before may take longer
    first, second = _timed(read, few), _timed(read, more)
    if more == few:
        return 0.0, first / few
    per_image = max(0.0, second - first) / (more - few)
    return max(0.0, first - few * per_image), per_image


def _forget_peak(device: torch.device) -> None:
    """Let the peak start again from the memory that is in use, where the system can."""
    return_freed_memory()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_memory(device: torch.device) -> int:
    """Bytes at the peak so far: of this process, or on a GPU; 0 where the system does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return _peak_since_start()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def _peak_since_start() -> int:
    try:
        import resource
    except ImportError:  # Windows has none
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
