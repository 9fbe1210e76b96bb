"""An estimate of the time and memory of a pruning job, from a few steps of each of its parts."""

import contextlib
import copy
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from torch import nn

from ..methods import SERVE_ALL_BUDGETS
from ..methods.uniform import uniform_shape
from ..networks import onnx_file
from ..searching.dry_run import search_phases
from ..shape import Shape
from ..slimming.slim import slim
from ..timing.stopwatch import MIN_ROUNDS, ROUNDS, SECONDS
from ..training.calibration import sample_images
from ..training.distill import distillation
from ..training.dry_run import forward_phase, training_phases
from ..training.probe import FEW, Estimate, Phase, probe
from ..training.session import Session
from ..training.train import preserve_random_state
from .job import PruningJob

__all__ = ["JobEstimate", "estimate_job"]

TEACHER, SEARCH, STUDENT = "teacher", "search", "student"
EXPORT, SPEED = "exporting", "measuring the speed"
SEARCHES = {*SERVE_ALL_BUDGETS, "tas-depth"}
WARM_UP = 3
FILES = 3  # two ONNX files and a program, which take about as long to write


@dataclass(frozen=True, kw_only=True)
class JobEstimate:
    """What a job will take: seconds of its parts, and bytes at its peak."""

    seconds: Mapping[str, float]
    memory: int

    @property
    def trial(self) -> float:
        """Seconds of all but the teacher, which the trials of a comparison share."""
        return sum(value for name, value in self.seconds.items() if name != TEACHER)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


def estimate_job(job: PruningJob, session: Session) -> JobEstimate:
    """Do a few steps of each part on copies of the networks; the job itself is not begun.

    The small network is taken to be as wide everywhere as the budget allows. A method without
    gradients of sizes is taken to train the unpruned network for the epochs of a search.
    """
    fabric, data = session.fabric, job.dataset
    small = slim(job.model, job.space, _small_shape(job))
    student = replace(job.distilling, epochs=job.student_epochs(job.searching.epochs))

    def teacher() -> list[Phase]:
        training, tests = training_phases("teacher", job.model, data, job.training, fabric)
        return [replace(tests, images=len(data.test))] if job.trained else [training, tests]

    def search() -> list[Phase]:
        if job.method_name not in SEARCHES:
            return training_phases("search", job.model, data, job.searching, fabric)[:1]
        budgets = job.budgets or [job.budget]
        return search_phases(
            job.model, data, budgets, job.searching, space=job.space, fabric=fabric
        )

    def learning() -> list[Phase]:
        objective = None
        if "kd" in student.transfer:
            objective = distillation(job.model, data, student, fabric)
        return training_phases("student", small, data, student, fabric, objective=objective)

    def speed() -> list[Phase]:
        images = fabric.to_device(sample_images(data.train, FEW, 0).images)
        networks = {
            name: copy.deepcopy(net) for name, net in (("before", job.model), ("after", small))
        }
        phases = [
            forward_phase(name, net.to(fabric.device), images, 0, job.large_batch, fabric)
            for name, net in networks.items()
        ]
        return [replace(phase, decoded=False) for phase in phases]

    with preserve_random_state(fabric):
        seen = {
            name: probe(part, data.train, fabric.device)
            for name, part in {
                TEACHER: teacher,
                SEARCH: search,
                STUDENT: learning,
                SPEED: speed,
            }.items()
        }
    return JobEstimate(
        seconds={
            **{name: seen[name].total for name in (TEACHER, SEARCH, STUDENT)},
            EXPORT: FILES * _onnx_seconds(small, job),
            SPEED: _speed_seconds(seen[SPEED], job.large_batch),
        },
        memory=max(part.memory for part in seen.values()),
    )


def _small_shape(job: PruningJob) -> Shape:
    """A shape that costs about as much as the budget; the full one if none is found at once."""
    try:
        return uniform_shape(job.space, job.budget.within(0.5))
    except ValueError:
        return job.space.full


def _onnx_seconds(small: nn.Module, job: PruningJob) -> float:
    """How long it takes to write the small network as an ONNX file; 0 where that is not done."""
    if not job.export:
        return 0.0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch, contextlib.suppress(ValueError):
        onnx_file.write(small, job.dataset.info.input_shape, Path(scratch) / "small.onnx")
    return time.perf_counter() - start


def _speed_seconds(seen: Estimate, large_batch: int) -> float:
    """How long the timing of both networks will take, in PyTorch and in onnxruntime."""
    each = sum(seen.step_seconds.values()) / large_batch
    total = 0.0
    for batch in (1, large_batch):
        once = each * batch
        total += once * (WARM_UP + max(MIN_ROUNDS, min(ROUNDS, SECONDS / max(once, 1e-9))))
    return 2 * total
