"""The whole job in one call: a network and a budget in, a smaller, trained network out."""

import copy
import hashlib
import json
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from ..atomic_files import weights_as_bytes
from ..costing.budget import Budget
from ..costing.latency import Latency
from ..data import Data, Dataset, as_dataset
from ..methods import Method, load_method
from ..networks.blueprint import Blueprint
from ..own_task import OwnObjective, OwnScore, own_task
from ..presets import PRESETS
from ..runs.compare_settings import first_difference
from ..runs.progress import Progress
from ..runs.progress_file import progress_kept
from ..runs.run_folder import SETTINGS, Run, read_settings
from ..settings import Distilling, Metric, Searching, Training
from ..shape import Shape
from ..timing.table_file import conditions_here, find_latency
from ..tracing.space import Space
from ..training.checks import check_model, check_outputs, check_settings, in_order_for
from ..training.devices import make_fabric
from ..training.processes import from_first, measured_by_first
from ..training.room_to_learn import looks_trained
from ..training.session import Session, check_seed
from .conclude import conclude
from .job import PruningJob
from .steps import apply_method, train_student, train_teacher

__all__ = ["Pruned", "prune", "run_job"]

OTHER = {
    "model": (
        "the network has other weights than the one",
        "call torch.manual_seed before building it",
    ),
    "data": ("the images or labels are not those", "give the same data"),
    "space": ("the candidate sizes are not those", "give the same space"),
}
"""The message and the fix where a part of ``_digests`` differs."""


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The result of ``prune``."""

    model: nn.Module
    """The small network, trained: an ordinary module in evaluation mode."""
    teacher: nn.Module
    """The unpruned network, trained."""
    shape: Shape
    """The sizes of the small network."""
    summary: dict[str, Any]
    """All numbers, before and after, as in result.json."""

    def __repr__(self) -> str:
        before, after = self.summary["before"], self.summary["after"]
        score = next(name for name in ("accuracy", "score") if name in after)
        parts = (
            f"{name} {before[name]:{form}} -> {after[name]:{form}}"
            for name, form in ((score, ".4f"), ("macs", ","), ("params", ","))
        )
        return f"Pruned({', '.join(parts)})"


def run_job(job: PruningJob, session: Session) -> Pruned:
    """Train the teacher, prune it, train the student, then time, export and report it.

    Steps that the run folder of the session has finished are not done again.
    """
    job.check(session)
    if not job.trained and looks_trained(job.model, job.dataset, session.fabric):
        warnings.warn(
            "the model looks trained, and is trained anew from its weights at a learning rate for "
            "fresh ones; use trained=True to prune it as it is",
            stacklevel=3,
        )
    if session.run is not None:
        session.run.start(inputs={"images": job.dataset.fingerprint})
    before = train_teacher(job, session)
    found, search_seconds = apply_method(job, session)
    student, after = train_student(job, found, session)

    def finish() -> dict[str, Any]:
        scores = {"before": before, "after": after}
        done = None if session.run is None else session.run.result()
        return done or conclude(job, found, student, scores, search_seconds, session)

    summary = from_first(session.fabric, finish)
    return Pruned(model=student, teacher=job.model, shape=found.shape, summary=summary)


def prune(
    model: nn.Module,
    data: Data,
    budget: str | float = 0.5,
    *,
    objective: OwnObjective | None = None,
    score: OwnScore | None = None,
    method: str | Method = "tas",
    metric: Metric = "macs",
    latency: Latency | None = None,
    tolerance: float = 0.05,
    trained: bool = False,
    training: Training | None = None,
    searching: Searching | None = None,
    distilling: Distilling | None = None,
    space: Space | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    fabric: Fabric | None = None,
    progress: Progress | None = None,
) -> Pruned:
    """Make a network smaller and train it; ``model`` stays as it is.

    ``data`` is a dataset of ``tas.data``, its name, or torch datasets, as ``from_datasets`` takes
    them: one, or a pair (train, test). Targets are classes, unless there are two functions of the
    model and a batch (images, targets): ``objective`` calls the model once and returns the loss, a
    number; ``score``, where higher is better, returns the mean of the batch, or a number for each
    image.

    With the metric latency, ``budget`` is a time ("3ms") or a fraction of what the unpruned network
    takes on this machine: in PyTorch, for one image, with one thread, unless a ``latency`` is given
    that was measured otherwise (``timing.table_file.find_latency``).

    Use ``trained=True`` if the model is trained already. The settings of the three trainings (the
    unpruned network, the search, the small network) are those of the preset quick unless given.
    ``method`` is a name, path.py:function, or a function. With a folder ``out``, everything is kept
    there, with an export and a report, and the same call continues where an interrupted one
    stopped. A ``fabric`` of several devices has to be launched; all of its processes make this
    call, and the first of them has the folder.

    >>> import torch
    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> data, net = from_tensors(images, images), models.build("resnet20", num_classes=2)
    >>> short = {"epochs": 1, "batch_size": 10}
    >>> settings = {"training": Training(**short), "searching": Searching(**short)}
    >>> pruned = prune(net, data, budget=0.5, **settings, distilling=Distilling(**short))
    >>> 0.475 <= pruned.summary["after"]["macs"] / pruned.summary["before"]["macs"] <= 0.525
    True
    """
    check_model(model)
    check_seed(seed)
    check_settings("training", training, Training)
    check_settings("searching", searching, Searching)
    check_settings("distilling", distilling, Distilling)
    data = as_dataset(data, own_task(objective, score), seed=seed)
    check_outputs(model, data.info, data.task)
    data = in_order_for(data, model)
    name = data.info.name
    preset, images = PRESETS["quick"], len(data.train) + len(data.validation)
    space = space or Space.trace(model, data.info.input_shape)
    fabric = fabric or make_fabric()
    if fabric.world_size > 1 and not torch.distributed.is_initialized():
        raise ValueError(
            f"the fabric has {fabric.world_size} devices and is not launched: call fabric.launch()"
        )
    if metric == "latency" and latency is None:
        here = conditions_here("torch", 1, 1, fabric.device)
        table = partial(find_latency, model, space, here, device=fabric.device)
        latency = measured_by_first(fabric, lambda: table().measured.latency)
    job = PruningJob(
        model=copy.deepcopy(model),
        trained=trained,
        dataset=data,
        space=space,
        budget=Budget.of(budget, space, metric=metric, tolerance=tolerance, latency=latency),
        method=load_method(method) if isinstance(method, str) else method,
        method_name=method if isinstance(method, str) else getattr(method, "__name__", "own"),
        training=training or preset.teacher(name, images),
        searching=searching or preset.search(name, images),
        distilling=distilling or preset.student(name, images),
        blueprint=Blueprint(
            model=None,
            num_classes=data.info.num_classes,
            input_shape=data.info.input_shape,
            residual=space.residual,
            leaf=space.leaf,
        ),
        source={"model": type(model).__name__, "data": name, "seed": seed, **data.task.names()},
    )
    session = Session(seed=seed, fabric=fabric, progress=progress or Progress())
    if out is None:
        return run_job(job, session)
    job.check(session)
    settings = job.settings(
        method=job.method_name,
        budget=str(budget),
        metric=metric,
        tolerance=tolerance,
        train=job.training,
        search=job.searching,
        student=job.distilling,
        trained=trained,
        digest=_digests(model, data, space),
    )
    _check_folder(Path(out), settings)
    with (
        Run.open(out, settings) if fabric.global_rank == 0 else nullcontext() as run,
        progress_kept(run, session.progress) as kept,
    ):
        return run_job(job, replace(session, run=run, progress=kept))


def _check_folder(out: Path, settings: Mapping[str, Any]) -> None:
    """Refuse the folder of another job, in words for callers from Python."""
    if not (out / SETTINGS).is_file():
        return
    there = read_settings(out)
    names = [f"digest.{name}" for name in OTHER]
    if difference := first_difference(there, settings, may_differ=names):
        raise ValueError(
            f"run folder {out} belongs to another config: {difference}; choose another out"
        )
    for name, (differs, fix) in OTHER.items():
        if there.get("digest", {}).get(name) != settings["digest"][name]:
            raise ValueError(
                f"{differs} that run folder {out} was started with; {fix}, or choose another out"
            )


def _digests(model: nn.Module, data: Dataset, space: Space) -> dict[str, str]:
    """Hashes of the network, the images and the sizes, which settings alone do not identify."""
    images, labels = next(iter(data.test.ordered(min(100, len(data.test)))))
    seen = b"".join(t.contiguous().numpy().tobytes() for t in (data.train.labels, images, labels))
    sizes = json.dumps([dict(space.widths), dict(space.depths)]).encode()
    parts = {"model": weights_as_bytes(model), "data": seen, "space": sizes}
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in parts.items()}
