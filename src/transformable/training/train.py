"""The one training loop."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Data, Dataset, Split, as_dataset
from ..own_task import OwnObjective, OwnScore, own_task
from ..seeds import generator
from ..settings import Training
from ..task import Objective, Task
from .checkpoints import Checkpointer, LoopState
from .checks import (
    check_model,
    check_settings,
    check_weights,
    in_order_for,
    trainable,
    try_out,
)
from .devices import sum_over_processes
from .epoch_log import EpochLog, Row
from .evaluate import evaluate
from .session import Session
from .step_size import how_chosen, with_learning_rate

__all__ = ["Trained", "check_steps", "learning_rate", "minimise", "train"]


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained network and its results on the test set."""

    model: nn.Module
    tested: dict[str, float]
    """The scores of the task: ``accuracy`` and ``top5``, or ``score``."""
    n: int
    history: list[dict[str, Any]]
    """One row per epoch, as in metrics.csv."""

    def __repr__(self) -> str:
        scores = ", ".join(f"{name} {value:.4f}" for name, value in self.tested.items())
        return f"Trained({scores} on {self.n} test images)"

    @property
    def accuracy(self) -> float:
        return self.tested["accuracy"]

    @property
    def top5(self) -> float:
        return self.tested["top5"]

    @property
    def score(self) -> float:
        """The score that counts: the accuracy, if there are classes."""
        return next(iter(self.tested.values()))

    def scores(self) -> dict[str, Any]:
        """The results on the test set and the seconds of training, as in result.json."""
        seconds = sum(row["seconds"] for row in self.history)
        return {**self.tested, "n": self.n, "seconds": seconds}


def train(
    model: nn.Module,
    dataset: Data,
    settings: Training | None = None,
    session: Session | None = None,
    *,
    objective: OwnObjective | None = None,
    score: OwnScore | None = None,
) -> Trained:
    """Train ``model`` in place, and test it once at the end.

    ``dataset``, ``objective`` and ``score`` are those of ``prune``.

    If the session has a run folder, state and metrics are kept there, SIGINT and SIGTERM save and
    raise ``Interrupted``, and the next call continues from the last checkpoint, to the same bits.

    >>> from transformable.data import from_tensors
    >>> images = torch.eye(4).repeat(8, 1).reshape(32, 1, 2, 2), torch.arange(32) % 4
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
    >>> train(net, from_tensors(images, images), Training(epochs=5, batch_size=4)).accuracy
    1.0
    """
    check_settings("settings", settings, Training)
    settings = settings or Training()
    session = session or Session()
    check_model(model)
    dataset = as_dataset(dataset, own_task(objective, score), seed=session.seed)
    dataset = in_order_for(dataset, model)
    try_out(model, dataset)
    plain = dataset.task.objective(settings.label_smoothing)
    return minimise(plain, model, dataset, settings, session)


def minimise(
    objective: Objective,
    model: nn.Module,
    dataset: Dataset,
    settings: Training,
    session: Session,
    *,
    after_epoch: Callable[[nn.Module], None] | None = None,
    epochs_before: float = 0.0,
) -> Trained:
    """Train ``model`` in place by an objective, and test it once at the end.

    ``after_epoch`` may change the network after the steps of each epoch. After a search that has
    trained the network for ``epochs_before``, the learning rate and the order of the images
    continue where it has stopped: if that is inside an epoch, the first one here is its rest.
    """
    fabric, progress, task = session.fabric, session.progress, dataset.task
    size = settings.batch_size
    steps = check_steps(dataset.train, size, fabric.world_size)
    check_weights(model)
    if not settings.lr:
        named = replace(session.training, chosen=how_chosen(settings, model))
        session, settings = replace(session, training=named), with_learning_rate(settings, model)
    begun = int(epochs_before)
    epochs = begun + settings.epochs
    lr_at = lr_schedule(settings, steps, epochs)
    if session.run is not None:
        session.run.start(inputs={"images": dataset.fingerprint})
    dataset.train.arrange(model)
    network, optimizer = fabric.setup(model, make_sgd(model.parameters(), settings))
    parts = {"model": model, "optimizer": optimizer}
    checkpointer = Checkpointer(session, parts, settings.lr)

    def score(split: Split) -> dict[str, float]:
        stop = checkpointer.during_evaluation
        at_once = settings.images_at_once
        return evaluate(
            model, split, batch_size=at_once, fabric=fabric, after_batch=stop, task=task
        )

    with checkpointer, preserve_random_state(fabric):
        state = checkpointer.restore()
        log = EpochLog(state, on_flush=partial(_read_losses, session, settings.lr))
        done = begun * steps + min(round((epochs_before - begun) * steps), steps - 1)
        state.step = max(state.step, done)
        progress.start("training", epochs * steps, state.step)
        for epoch in range(begun + len(state.history), epochs):
            start = state.step - epoch * steps
            order = {"seed": session.seed, "epoch": epoch, "start": start, **session.rank()}
            network.train()
            for x, y in dataset.train.shuffled(size, **order):
                (x, y) = fabric.to_device((x, y))
                seed_step(fabric, "step", session.seed, state.step)
                optimizer.param_groups[0]["lr"] = lr_at(state.step)
                optimizer.zero_grad()
                rows = []
                for part in split_batch(x, y, settings.accumulate):
                    outcome = objective(network, *part)
                    # the mean over the whole batch
                    fabric.backward(outcome["loss"] * (len(part[1]) / len(y)))
                    rows.append(_step_row(state.step + 1, task, outcome, part[1]))
                optimizer.step()
                state.step += 1
                log.add(_sum_of_parts(rows))
                progress.advance(state.step)
                checkpointer.after_step(log.flush)
            log.flush()
            if after_epoch is not None and state.edited <= epoch:
                after_epoch(model)
                state.edited = epoch + 1
            validation = score(dataset.validation) if len(dataset.validation) else {}
            log.close_epoch(_epoch_row(state, task, lr_at(state.step - 1), validation))
            checkpointer.save_epoch()
            progress.note(_summary(state.history[-1], task, settings.epochs))
        progress.start("testing", 0, 0)
        tested = score(dataset.test)

    if session.run is not None:
        session.run.save_weights(model)
    return Trained(
        model=model,
        tested={name: tested[name] for name in task.scores},
        n=int(tested["n"]),
        history=state.history,
    )


def learning_rate(step: int, *, total: int, warmup: int, peak: float) -> float:
    """Linear warm-up over ``warmup`` steps, then half a cosine down to 0 at the last step.

    >>> [round(learning_rate(step, total=7, warmup=2, peak=1.0), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    part = (step - warmup) / max(1, total - 1 - warmup)
    return peak * (1 + math.cos(math.pi * part)) / 2


def lr_schedule(settings: Training, steps: int, epochs: float) -> Callable[[int], float]:
    """The learning rate as a function of the step, over ``epochs`` of ``steps`` each.

    >>> lr_at = lr_schedule(Training(lr=1.0, warmup_epochs=0), steps=3, epochs=2)
    >>> [round(lr_at(step), 2) for step in range(6)]
    [1.0, 0.9, 0.65, 0.35, 0.1, 0.0]
    """
    total = round(epochs * steps)
    warmup = min(round(settings.warmup_epochs * steps), total // 2)
    return partial(learning_rate, total=total, warmup=warmup, peak=settings.lr)


def check_steps(split: Split, batch_size: int, world: int) -> int:
    """The number of steps of an epoch; a ValueError if there are no images, or if a batch cannot be
    shared by the devices."""
    if batch_size % world:
        raise ValueError(
            f"batch_size {batch_size} cannot be shared by {world} devices; "
            f"use a multiple of {world}"
        )
    steps = split.steps(batch_size)
    if steps == 0:
        raise ValueError("there are no images to train on; use a smaller validation share")
    if len(split) < batch_size and len(split) % world:
        raise ValueError(
            f"a batch of {len(split)} images, which is all there are, cannot be shared by {world} "
            f"devices; use a smaller batch_size, a multiple of {world}"
        )
    return steps


def make_sgd(parameters: Iterable[nn.Parameter], settings: Training) -> torch.optim.SGD:
    """SGD over the parameters that are not frozen."""
    return torch.optim.SGD(
        trainable(parameters),
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
    )


def preserve_random_state(fabric: Fabric) -> contextlib.AbstractContextManager[None]:
    """Afterwards, the caller's random numbers continue as if none had been drawn inside."""
    gpu = fabric.device.type == "cuda"
    return torch.random.fork_rng(devices=[fabric.device.index] if gpu else [])


def seed_step(fabric: Fabric, purpose: str, seed: int, step: int) -> None:
    """Make what is random in a network (dropout) a function of step and process, so that there is
    no random state to save."""
    number = int(generator(purpose, seed, step, fabric.global_rank).integers(2**63))
    torch.default_generator.manual_seed(number)
    if fabric.device.type == "cuda":
        torch.cuda.manual_seed(number)


def split_batch(x: Tensor, y: Tensor, parts: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The images and labels of a batch in ``parts``, or in as many as there are images."""
    return zip(x.chunk(parts), y.chunk(parts), strict=True)


def _step_row(step: int, task: Task, outcome: dict[str, Tensor], y: Tensor) -> Row:
    """The values of one step, still on the device."""
    sums = task.training_sums(outcome["outputs"], y)
    return {"step": step, "seen": len(y), "loss": outcome["loss"].detach(), **sums}


def _sum_of_parts(rows: list[Row]) -> Row:
    """The values of a step whose batch went through the network in parts."""
    seen = sum(row["seen"] for row in rows)
    loss = sum(row["loss"] * (row["seen"] / seen) for row in rows)
    sums = {name: sum(row[name] for row in rows) for name in rows[0]}
    return {**sums, "step": rows[0]["step"], "loss": loss}


def _read_losses(session: Session, lr: float, rows: list[Row]) -> list[Row]:
    """The values of some steps as numbers, summed over the images of all processes."""
    if not rows:
        return []
    fabric, training = session.fabric, session.training
    _, _, *names = rows[0]
    columns = [torch.stack([row[name] for row in rows]).tolist() for name in names]
    sums = [
        [loss * row["seen"], *scores, row["seen"]]
        for row, loss, *scores in zip(rows, *columns, strict=True)
    ]
    if fabric.world_size > 1:
        own = torch.tensor(sums, dtype=torch.float64, device=fabric.device)
        sums = sum_over_processes(fabric, own).tolist()
    for row, (loss, *_) in zip(rows, sums, strict=True):
        if not math.isfinite(loss):
            first = row["step"] == 1
            fix = "check the images and the objective" if first else training.advice
            step = training.at(row["step"], lr)
            raise ValueError(f"the loss is not a finite number at {step}; {fix}")
    return [dict(zip((*names, "seen"), values, strict=True)) for values in sums]


def _epoch_row(state: LoopState, task: Task, lr: float, validation: dict[str, float]) -> Row:
    """The row of metrics.csv for the running epoch."""
    sums = {name: sum(row[name] for row in state.rows) for name in state.rows[0]}
    seen = sums.pop("seen")
    return {
        "epoch": len(state.history) + 1,
        "step": state.step,
        "lr": lr,
        **{f"train_{name}": value / seen for name, value in sums.items()},
        **{f"validation_{name}": validation.get(name) for name in ("loss", *task.scores)},
        "seconds": state.seconds,
        "samples_per_second": seen / max(state.seconds, 1e-9),
    }


def _summary(row: dict[str, Any], task: Task, epochs: int) -> str:
    text = f"epoch {row['epoch']}/{epochs}: loss {row['train_loss']:.3f}"
    score = row[f"validation_{task.scores[0]}"]
    if score is not None:
        shown = f"{score:.1%}" if task.scores[0] == "accuracy" else f"{score:.4g}"
        text += f", validation {shown}"
    return text
