"""The search: weights and sizes learn alternately, each on its half of the images, or together."""

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..costing.budget import Budget
from ..data import Data, Dataset, Split, as_dataset, stratified
from ..own_task import OwnObjective, OwnScore, own_task
from ..settings import Searching
from ..shape import Shape
from ..slimming.fisher import fisher_importance
from ..slimming.slim import slim
from ..slimming.sort_channels import sort_channels
from ..supernet.supernet import SuperNet
from ..tracing.space import Space
from ..training.calibration import sampled_batches
from ..training.checkpoints import Checkpointer
from ..training.checks import check_model, check_weights, in_order_for, try_out
from ..training.epoch_log import EpochLog
from ..training.memory import return_freed_memory
from ..training.processes import check_same, share_state
from ..training.room_to_learn import room_to_learn
from ..training.session import Session
from ..training.step_size import with_learning_rate
from ..training.train import check_steps, preserve_random_state
from .derive import Derived, check_possible
from .falling_target import FallingTarget
from .search_files import SearchFiles, epoch_row
from .search_step import SearchStep

__all__ = [
    "Searched",
    "images_of",
    "make_supernet",
    "search",
    "search_all",
    "with_trained_network",
]

SAMPLE = 2048  # training images by which the channels of a trained network are sorted


@dataclass(frozen=True, kw_only=True)
class Searched:
    """The result of a search for one budget."""

    derived: Derived
    budget: Budget
    probabilities: dict[str, Tensor]
    """The learned probabilities of each layer's widths and each stage's depths."""
    history: list[dict[str, Any]]
    """One row per epoch, as in metrics.csv."""
    model: nn.Module
    """The given network with its channels sorted: the shape keeps the first of each layer."""
    network: nn.Module
    """The small network, with the weights that the search has trained."""
    epochs: float
    """Passes over the training images until the shape was derived."""
    passes: float
    """The same, plus a third for each pass of images that only went forward, to be measured."""

    @property
    def shape(self) -> Shape:
        return self.derived.shape


def search(
    model: nn.Module,
    dataset: Data,
    budget: Budget | str | float,
    settings: Searching | None = None,
    session: Session | None = None,
    *,
    space: Space | None = None,
    epochs_after: float = 0.0,
    objective: OwnObjective | None = None,
    score: OwnScore | None = None,
) -> Searched:
    """Learn the widths and depths of ``model``, from the weights that it has, and derive a shape.

    With ``epochs_after``, the learning rate ends where a training of that many epochs continues.
    ``dataset``, ``objective`` and ``score`` are those of ``prune``.

    The model is not changed. If the session has a run folder, the search is kept there and
    continues from its last checkpoint, to the same bits, as training does.

    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> net = models.build("resnet20", num_classes=2)
    >>> dataset = from_tensors(images, images, validation=0)
    >>> found = search(net, dataset, 0.5, Searching(epochs=1, batch_size=10))
    >>> found.budget.low <= found.derived.cost <= found.budget.high
    True
    """
    check_model(model)
    session = session or Session()
    dataset = as_dataset(dataset, own_task(objective, score), seed=session.seed)
    dataset = in_order_for(dataset, model)
    try_out(model, dataset)
    space = space or Space.trace(model, dataset.info.input_shape)
    if not isinstance(budget, Budget):
        budget = Budget.of(budget, space)
    [found] = search_all(
        model, dataset, [budget], settings, session, space=space, epochs_after=epochs_after
    )
    return found


def search_all(
    model: nn.Module,
    dataset: Dataset,
    budgets: Sequence[Budget],
    settings: Searching | None = None,
    session: Session | None = None,
    *,
    space: Space,
    epochs_after: float = 0.0,
) -> list[Searched]:
    """One search for several budgets, the largest first; each gets an equal part of the steps."""
    settings = settings or Searching()
    session = session or Session()
    settings = with_trained_network(settings, model, dataset, session.fabric)
    fabric, progress, run, seed = session.fabric, session.progress, session.run, session.seed
    for budget in budgets:
        check_possible(space, budget)
    check_weights(model)
    parts = images_of(dataset.train, settings, seed)
    size = settings.batch_size
    steps = min(check_steps(part, size, fabric.world_size) for part in parts)
    asked = [space.candidates, *(budget.target() for budget in budgets)]
    check_same(fabric, "the sizes and budgets to search", json.dumps(asked).encode())
    progress.start("preparing", 0, 0)
    files = SearchFiles(run, space)
    if run is not None:
        run.start(inputs={"images": dataset.fingerprint})
    teacher = dataset.train.arrange(copy.deepcopy(model)).to(fabric.device)
    teacher.eval().requires_grad_(False)
    model = _prepared(model, space, dataset, settings, session)
    return_freed_memory()
    share_state(fabric, model)
    net = make_supernet(model, space, settings, seed)
    dataset.train.arrange(net).to(fabric.device)
    search_step = SearchStep(
        net,
        budgets[0],
        settings,
        steps,
        fabric,
        task=dataset.task,
        teacher=teacher if settings.targets == "teacher" else None,
        epochs_after=epochs_after,
    )
    target = FallingTarget(
        search_step,
        teacher,
        budgets,
        dataset,
        settings,
        session,
        stop=lambda images: checkpointer.during_evaluation(images),  # which holds the target
    )
    checkpointer = Checkpointer(session, {**search_step.parts(), "target": target})
    with checkpointer, preserve_random_state(fabric):
        state = checkpointer.restore()
        files.restore(state)
        log = EpochLog(state, on_flush=files.append_steps)
        if settings.start == "sensitivity" and not state.step:
            progress.start("measuring sizes", 0, 0)
            target.at(0)
            return_freed_memory()
        progress.start("searching", settings.epochs * steps, state.step)
        if state.step:
            search_step.set_temperature(state.step - 1)
        for epoch in range(len(state.history), settings.epochs):
            start = state.step - epoch * steps
            order = {"seed": seed, "epoch": epoch, "start": start, **session.rank()}
            net.train()
            for batches in zip(*(part.shuffled(size, **order) for part in parts), strict=False):
                target.at(state.step)
                row = search_step(state.step, seed, *fabric.to_device(batches))
                state.step += 1
                log.add({"step": state.step, "epoch": epoch + 1, **row})
                progress.advance(state.step)
                progress.note(_summary(row, search_step.budget))
                search_step.drawn.after_step(state.step)
                checkpointer.after_step(log.flush)
            search_step.drawn.check(state.step)
            log.flush()
            files.append_distributions(epoch + 1, net.probabilities())
            log.close_epoch(epoch_row(state))
            checkpointer.save_epoch()
        target.at(state.step)
        checkpointer.save()
    if run is not None:
        run.save_text("shape.json", target.found[-1].derived.shape.to_json() + "\n")
    images = len(dataset.train)
    sorting = min(SAMPLE, images) / images if _asks_to_sort(settings) else 0.0
    return [
        Searched(
            derived=found.derived,
            budget=found.budget,
            probabilities=found.probabilities,
            history=state.history,
            model=model,
            network=found.network,
            epochs=found.step / steps,
            passes=found.step / steps + sorting + found.forward_images / images / 3,
        )
        for found in target.found
    ]


def with_trained_network(
    settings: Searching, model: nn.Module, dataset: Dataset, fabric: Fabric
) -> Searching:
    """The same settings; if they leave the learning rate open, with one for a search that starts
    from this network, or from fresh weights."""
    if settings.start == "scratch" or settings.lr:
        return with_learning_rate(settings, None)
    return with_learning_rate(settings, model, room_to_learn(model, dataset, fabric))


def _asks_to_sort(settings: Searching) -> bool:
    """Whether channels are sorted by the outputs of the network, which needs images."""
    return settings.sort and settings.start == "sensitivity"


def _prepared(
    model: nn.Module, space: Space, dataset: Dataset, settings: Searching, session: Session
) -> nn.Module:
    """The model as the search starts from it: with fresh weights, or with its channels in the order
    that the settings ask for."""
    if settings.start == "scratch":
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(session.seed)
            return slim(model, space, space.full, weights="fresh")
    if not settings.sort:
        return model
    scores = None
    if _asks_to_sort(settings):
        at_once = min(SAMPLE // 8, settings.images_at_once)  # photos are large
        sample = sampled_batches(dataset.train, SAMPLE, session.seed, at_once)
        batches = (session.fabric.to_device(x) for x, _ in sample)
        asked = copy.deepcopy(model).to(session.fabric.device)
        scores = fisher_importance(asked, space, batches, task=dataset.task)
    return sort_channels(model, space, scores)


def images_of(split: Split, settings: Searching, seed: int) -> tuple[Split, ...]:
    """The images of the weights and those of the sizes, or one split that both learn from."""
    return (split,) if settings.images == "shared" else split_in_halves(split, seed)


def split_in_halves(split: Split, seed: int) -> tuple[Split, Split]:
    """Two halves with the same share of every class: for the weights, and for the sizes."""
    rest, part = stratified(split.labels, 0.5, seed)
    return split.subset(rest), split.subset(part)


def make_supernet(model: nn.Module, space: Space, settings: Searching, seed: int) -> SuperNet:
    """The supernet of a model whose channels are sorted, with initial logits by the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SuperNet(model, space, settings.select, settings.align, settings.sampling)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def _summary(row: dict[str, Any], budget: Budget) -> str:
    target = budget.target()
    unit, letter = (1e6, "M") if target["value"] >= 1e6 else (1e3, "K")
    if budget.metric == "latency":
        unit, letter = 1, " ms"
    cost, low, high = (value / unit for value in (row["derived"], target["low"], target["high"]))
    return (
        f"{budget.metric} {cost:.2f}{letter}, band {low:.2f} to {high:.2f}{letter}, "
        f"discrepancy {row['discrepancy']:.2f}"
    )
