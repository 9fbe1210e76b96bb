"""The one training loop."""

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Dataset, Split
from ..seeds import generator
from ..settings import Training
from .checkpoints import Saver, State, Tally
from .evaluate import evaluate
from .session import Session

__all__ = ["Objective", "Trained", "check_steps", "cross_entropy", "learning_rate", "train"]

Objective = Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]
"""``objective(model, x, y)`` gives at least ``loss``, which is lowered, and ``logits``."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A trained network and how it did on the test set."""

    model: nn.Module
    accuracy: float
    top5: float
    n: int
    history: list[dict[str, Any]]
    """One row an epoch, as in metrics.csv."""

    def scores(self) -> dict[str, Any]:
        """The results on the test set, and the seconds of training, as result.json holds them."""
        seconds = sum(row["seconds"] for row in self.history)
        return {"accuracy": self.accuracy, "top5": self.top5, "n": self.n, "seconds": seconds}


def train(
    model: nn.Module,
    dataset: Dataset,
    settings: Training | None = None,
    session: Session | None = None,
    *,
    objective: Objective | None = None,
    each_epoch: Callable[[nn.Module], None] | None = None,
) -> Trained:
    """Train ``model`` in place, and test it once at the end.

    ``each_epoch`` may change the network after the steps of each epoch.

    If the session has a run folder, state and metrics are kept there, SIGINT and SIGTERM save and
    raise ``Interrupted``, and the next call continues from the last checkpoint, to the same bits.

    >>> from transformable.data import from_tensors
    >>> images = torch.eye(4).repeat(8, 1).reshape(32, 1, 2, 2), torch.arange(32) % 4
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 4))
    >>> train(net, from_tensors(images, images), Training(epochs=5, batch_size=4)).accuracy
    1.0
    """
    settings = settings or Training()
    session = session or Session()
    fabric, progress = session.fabric, session.progress
    objective = objective or cross_entropy(settings.label_smoothing)
    size = settings.batch_size
    steps = check_steps(dataset.train, size, fabric.world_size)
    rate = rate_by_step(settings, steps)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network, optimizer = fabric.setup(model, sgd(model.parameters(), settings))
    parts = {"model": model, "optimizer": optimizer}
    saver = Saver(session, parts)

    def score(split: Split) -> dict[str, float]:
        watch = lambda _: saver.while_evaluating(state)  # noqa: E731
        return evaluate(model, split, batch_size=size, fabric=fabric, each_batch=watch)

    with saver, own_randomness(fabric):
        state = saver.restore(State())
        progress.start("training", settings.epochs * steps, state.step)
        for epoch in range(len(state.history), settings.epochs):
            share = {"seed": session.seed, **session.rank()}
            start = state.step - epoch * steps
            network.train()
            tally = Tally(state, fabric)
            for x, y in dataset.train.shuffled(size, epoch=epoch, start=start, **share):
                (x, y) = fabric.to_device((x, y))
                seed_step(fabric, "step", session.seed, state.step)
                optimizer.param_groups[0]["lr"] = rate(state.step)
                outcome = objective(network, x, y)
                optimizer.zero_grad()
                fabric.backward(outcome["loss"])
                optimizer.step()
                state.step += 1
                tally.add(outcome, y)
                progress.advance(state.step)
                saver.after_step(state, tally.gather)
            tally.gather()
            if each_epoch is not None and state.edited <= epoch:
                each_epoch(model)
                state.edited = epoch + 1
            validation = score(dataset.validation) if len(dataset.validation) else {}
            _close_epoch(state, rate(state.step - 1), validation)
            saver.save_epoch(state)
            progress.note(_summary(state.history[-1], settings.epochs))
        progress.note("testing")
        tested = score(dataset.test)

    if session.run is not None:
        session.run.save_weights(model)
    return Trained(
        model=model,
        accuracy=tested["accuracy"],
        top5=tested["top5"],
        n=int(tested["n"]),
        history=state.history,
    )


def cross_entropy(label_smoothing: float = 0.0) -> Objective:
    """The plain objective of classification."""

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        logits = model(x)
        if not isinstance(logits, Tensor):
            kind = type(logits).__name__
            raise ValueError(f"in training the model gives {kind} instead of a tensor of logits")
        loss = F.cross_entropy(logits, y, label_smoothing=label_smoothing)
        return {"loss": loss, "logits": logits}

    return objective


def learning_rate(step: int, *, total: int, warmup: int, peak: float) -> float:
    """Up in a line over ``warmup`` steps, then down in half a cosine to 0 at the last step.

    >>> [round(learning_rate(step, total=7, warmup=2, peak=1.0), 3) for step in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    part = (step - warmup) / max(1, total - 1 - warmup)
    return peak * (1 + math.cos(math.pi * part)) / 2


def rate_by_step(settings: Training, steps: int) -> Callable[[int], float]:
    """The learning rate of each step, for epochs of so many steps."""
    total = settings.epochs * steps
    warmup = min(round(settings.warmup_epochs * steps), total // 2)
    return lambda step: learning_rate(step, total=total, warmup=warmup, peak=settings.lr)


def check_steps(split: Split, batch_size: int, world: int) -> int:
    """Steps of an epoch; refuses what cannot be shared or is empty."""
    if batch_size % world:
        raise ValueError(
            f"batch_size {batch_size} cannot be shared by {world} devices; "
            f"use a multiple of {world}"
        )
    steps = split.steps(batch_size)
    if steps == 0:
        raise ValueError("there are no images to train on; use a smaller validation share")
    return steps


def sgd(parameters: Iterable[nn.Parameter], settings: Training) -> torch.optim.SGD:
    """SGD over those that may change."""
    parameters = [p for p in parameters if p.requires_grad]
    if not parameters:
        raise ValueError("the model has no parameters to train")
    return torch.optim.SGD(
        parameters,
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
    )


def own_randomness(fabric: Fabric) -> contextlib.AbstractContextManager[None]:
    """The caller's random numbers go on after training as if there had been none."""
    gpu = fabric.device.type == "cuda"
    return torch.random.fork_rng(devices=[fabric.device.index] if gpu else [])


def seed_step(fabric: Fabric, purpose: str, seed: int, step: int) -> None:
    """What is random in a network (dropout) is a function of the step, so there is no state of it
    to save, and each process has its own."""
    number = int(generator(purpose, seed, step, fabric.global_rank).integers(2**63))
    torch.default_generator.manual_seed(number)
    if fabric.device.type == "cuda":
        torch.cuda.manual_seed(number)


def _close_epoch(state: State, lr: float, validation: dict[str, float]) -> None:
    """Turn the sums of the epoch into its row."""
    seen = max(1, state.seen)  # only the first process has the sums
    state.history.append(
        {
            "epoch": len(state.history) + 1,
            "step": state.step,
            "lr": lr,
            "train_loss": state.loss / seen,
            "train_accuracy": state.right / seen,
            "validation_loss": validation.get("loss"),
            "validation_accuracy": validation.get("accuracy"),
            "validation_top5": validation.get("top5"),
            "seconds": state.seconds,
            "samples_per_second": state.seen / max(state.seconds, 1e-9),
        }
    )
    (state.loss, state.right, state.seen, state.seconds) = (0.0, 0, 0, 0.0)


def _summary(row: dict[str, Any], epochs: int) -> str:
    text = f"epoch {row['epoch']}/{epochs}: loss {row['train_loss']:.3f}"
    if row["validation_accuracy"] is not None:
        text += f", validation {row['validation_accuracy']:.1%}"
    return text
