"""The three steps of a job, each done once: train the teacher, prune it, train the student."""

import copy
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic_files import write_whole
from ..costing.budget import BandError, Budget, describe_cost
from ..costing.corrections import settle
from ..layers import in_mode, initialise
from ..methods import Context, MethodResult
from ..networks.blueprint import Blueprint
from ..networks.weights import load_weights
from ..report.chance import chance_remark
from ..runs.run_folder import Run
from ..searching.search import with_trained_network
from ..shape import Shape
from ..slimming.slim import slim
from ..training.calibration import BATCH, recalibrate, whole_batches
from ..training.distill import distill, with_teacher
from ..training.divergence import TrainingName
from ..training.evaluate import evaluate
from ..training.processes import check_same, share_state
from ..training.session import MOVABLE, Session
from ..training.step_size import how_chosen, with_learning_rate
from ..training.train import minimise, preserve_random_state
from .job import PruningJob

RECALIBRATED = 2048  # training images that set the batch norm statistics of a pruned network
TEACHER = TrainingName(what="the training of the unpruned network", section="train.")
SEARCH = TrainingName(what="the search", section="search.")
STUDENT = TrainingName(what="the training of the small network", section="student.")
GIVEN = "Was it trained on such images, normalised in the same way (--mean, --std)?"
TRAINED = "It may need a lower learning rate (--train.lr) or more epochs (--train.epochs)."
SPENT = ("passes", "epochs_before")

__all__ = ["apply_method", "blueprint_of", "train_student", "train_teacher"]


def train_teacher(job: PruningJob, session: Session, *, wait: bool = False) -> dict[str, Any]:
    """Train the unpruned network, or test it if it is trained; the weights are in ``job.model``.

    Returns its scores. A teacher that another process is training is refused, or waited for.
    """

    def work(session: Session) -> dict[str, Any]:
        if session.run is not None:
            session.run.start(job.blueprint.files())
        if not job.trained:
            plain = job.dataset.task.objective(job.training.label_smoothing)
            return minimise(plain, job.model, job.dataset, job.training, session).scores()
        if session.run is not None:
            session.run.save_weights(job.model)
        return {**_tested(job, job.model, session), "seconds": 0.0}

    settings = job.settings(train=job.training)
    session = session.titled("1/3 teacher", TEACHER)
    scores, folder = session.once("teacher", settings, work, wait=wait)
    if folder is not None:
        _load_weights(job.model, folder, session)
    job.model.eval()
    classes = job.dataset.info.num_classes
    if words := chance_remark(scores.get("accuracy"), scores["n"], classes):
        session.progress.warn(f"the unpruned network: {words} {GIVEN if job.trained else TRAINED}")
    return scores


def _tested(job: PruningJob, network: nn.Module, session: Session) -> dict[str, Any]:
    """The scores of a network on the test set, and the number of images."""
    task = job.dataset.task
    tested = evaluate(network, job.dataset.test, fabric=session.fabric, task=task)
    return {name: tested[name] for name in (*task.scores, "n")}


def apply_method(job: PruningJob, session: Session) -> tuple[MethodResult, float]:
    """Prune the teacher: returns the small network of the method, and the seconds that it took."""
    continued = None if job.searching.start == "scratch" else job.model
    named = replace(SEARCH, chosen=how_chosen(job.searching, continued))
    session = session.titled("2/3 search", named)
    settings = job.settings(method=job.method_name, search=job.searching)
    made: list[MethodResult] = []

    def work(session: Session) -> dict[str, Any]:
        result, seconds = _timed_method(job, session)
        made.append(result)
        if session.run is not None:
            session.run.save_text("shape.json", result.shape.to_json() + "\n")
            session.run.save_weights(result.model)
        return {
            "shape": result.shape.to_dict(),
            "cost": result.cost,
            "notes": result.notes,
            "measured": result.restore_budget is not None,
            **{name: getattr(result, name) for name in SPENT},
            "seconds": seconds,
        }

    record, folder = session.once("search", settings, work)
    if made:
        found = {name: getattr(made[0], name) for name in ("cost", *SPENT)}
        decided = json.dumps([made[0].shape.to_dict(), found])
        check_same(session.fabric, f"the results of {job.method_name}", decided.encode())
        return made[0], record["seconds"]
    assert folder is not None
    if record["measured"]:
        # what brings such a network back into the budget is not in a file: run the method again,
        # which continues from its own checkpoint
        with (
            nullcontext()
            if session.run is None  # only the first process may open the folder
            else Run.open(folder, settings, may_differ=MOVABLE)
        ) as run:
            return _timed_method(job, replace(session, run=run))[0], record["seconds"]
    shape = Shape.from_dict(record["shape"])
    model = slim(job.model, job.space, shape)
    _load_weights(model, folder, session)
    kept = {name: record[name] for name in ("cost", "notes", *SPENT)}
    return MethodResult(shape=shape, model=model, **kept), record["seconds"]


def _timed_method(job: PruningJob, session: Session) -> tuple[MethodResult, float]:
    """Call the method; its seconds include those before an interruption."""
    run = session.run
    clock = None if run is None else run.folder / "seconds.json"
    if run is not None:
        run.start()
    before = 0.0 if clock is None or not clock.exists() else json.loads(clock.read_text())
    start = time.perf_counter()
    context = Context(
        dataset=job.dataset,
        searching=with_trained_network(job.searching, job.model, job.dataset, session.fabric),
        session=session,
        epochs_after=job.student_epochs(job.searching.epochs),
    )

    def find(budget: Budget) -> MethodResult:
        with _shared_search(job, budget, context) as given:
            result = _settled(job, budget, given)
        if not budget.holds(result.cost):
            raise BandError(
                f"{job.method_name} found a network with "
                f"{describe_cost(budget.metric, result.cost)}, outside of {budget.band}"
            )
        if above := budget.exceeded(job.space, result.shape, result.time):
            hint = "" if job.method_name.startswith("tas") else "; try tas"
            raise BandError(f"{job.method_name} found a network with {above}{hint}")
        return result

    try:
        result = job.in_band(find)
        if result.restore_budget is None:
            _recalibrate(result.model, context)
    finally:
        seconds = before + time.perf_counter() - start
        if clock is not None:
            write_whole(clock, json.dumps(seconds))
    return result, seconds


def _settled(job: PruningJob, budget: Budget, context: Context) -> MethodResult:
    """The result of the method; if the budget or a limit beside it is a latency that the method has
    not measured, the network is measured, and the method is called again where that is outside the
    band."""
    result = job.method(job.model, job.space, budget, context)
    if result.time is not None:
        return result
    found = {result.shape.to_json(): result}

    def find(budget: Budget) -> Shape:
        result = job.method(job.model, job.space, budget, context)
        found[result.shape.to_json()] = result
        return result.shape

    settled = settle(result.shape, find, job.space, budget)
    result = replace(found[settled.shape.to_json()], time=settled.time)
    # the cost of a network with gates is not that of its shape
    return result if budget.latency is None else replace(result, cost=settled.cost)


@contextmanager
def _shared_search(job: PruningJob, budget: Budget, context: Context) -> Iterator[Context]:
    """The context of a search that serves all budgets of a job, if it shares one; a budget with a
    wider band than the others' has a search of its own."""
    if job.shared_search is None or budget not in job.budgets:
        yield context
        return
    bands = [each.promise for each in job.budgets]
    settings = job.settings(method=job.method_name, search=job.searching, bands=bands)
    with Run.open(job.shared_search, settings, may_differ=MOVABLE, wait=True) as run:
        run.start()
        yield replace(context, session=replace(context.session, run=run), budgets=job.budgets)


def _recalibrate(network: nn.Module, context: Context) -> None:
    """Recompute the batch norm statistics of a network whose channels were dropped."""
    session = context.session
    size = min(BATCH, context.searching.images_at_once)  # photos are large
    sample = whole_batches(context.dataset.train, RECALIBRATED, session.seed, size)
    batches = (x for x, _ in sample)
    with preserve_random_state(session.fabric), in_mode(network, training=False):
        recalibrate(network, batches, session.fabric).cpu()


def train_student(
    job: PruningJob, found: MethodResult, session: Session
) -> tuple[nn.Module, dict[str, Any]]:
    """Train the small network; returns it, and its scores and cost."""
    student = _initial_student(job, found, session.seed)
    inherits = "init" in job.distilling.transfer
    before = found.epochs_before if inherits else 0.0
    if before and job.passes is not None:
        # the fraction of a pass spent without learning is cut from the training, so that the total
        # is exactly the given number of passes
        before += (found.passes - before) % 1
    settings = replace(job.distilling, epochs=job.student_epochs(found.passes, before))
    sized = job.model if inherits else None
    named = replace(STUDENT, chosen=how_chosen(settings, sized))
    if inherits:
        settings = with_teacher(settings, job.model, job.dataset, session.fabric)
    settings = with_learning_rate(settings, sized)

    def work(session: Session) -> dict[str, Any]:
        run = session.run
        if run is not None:
            run.start(blueprint_of(job, found).files(found.shape))
        scores = distill(
            student,
            job.dataset,
            settings,
            session,
            teacher=job.model,
            after_epoch=found.after_epoch,
            epochs_before=before,
        ).scores()
        scores["passes"] = {"search": found.passes, "student": settings.epochs - before % 1}
        if found.restore_budget is None:
            return {**scores, "cost": found.cost}
        cost = job.in_band(partial(found.restore_budget, student))
        if run is not None:
            run.save_weights(student)
        return {**scores, **_tested(job, student, session), "cost": cost}

    own = job.settings(method=job.method_name, student=settings)
    session = session.titled("3/3 student", named)
    scores, folder = session.once("student", own, work)
    if folder is not None:
        _load_weights(student, folder, session)
    return student.eval(), scores


def _load_weights(model: nn.Module, folder: Path, session: Session) -> None:
    """Put the weights of a run folder into a network; the first process reads them for all."""
    if session.fabric.global_rank == 0:
        load_weights(model, folder / "model.safetensors")
    share_state(session.fabric, model)


def blueprint_of(job: PruningJob, found: MethodResult) -> Blueprint:
    """The blueprint of the small network; one with measured cost has layers of its own."""
    return job.blueprint if found.restore_budget is None else replace(job.blueprint, model=None)


def _initial_student(job: PruningJob, found: MethodResult, seed: int) -> nn.Module:
    """The small network as its training begins: as the method left it, or with fresh weights."""
    student = copy.deepcopy(found.model).cpu()
    if "init" in job.distilling.transfer:
        return student
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if found.restore_budget is None:
            return slim(job.model, job.space, found.shape, weights="fresh")
        # what is drawn for a weight depends on its memory format
        student.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        initialise(student)
    return student
