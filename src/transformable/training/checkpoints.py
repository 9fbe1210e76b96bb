"""All that a job has to remember, and when it is saved."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from lightning_fabric import Fabric
from torch import Tensor

from .devices import add_up, agree
from .interrupts import Interrupted, StopSignals
from .session import Session

__all__ = ["Progressing", "Saver", "State", "Tally"]

# Losses stay on the device and are looked at together, this often.
LOOK_EVERY = 50
# With several processes, the wish to save or to stop is exchanged this often.
AGREE_EVERY = 10
(NOTHING, SAVE, STOP) = range(3)


@dataclass(kw_only=True)
class Progressing:
    """Where a job is, apart from what it works on."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    """One row for each finished epoch."""
    seconds: float = 0.0
    """Of the running epoch."""


class Part(Protocol):
    """A network, an optimiser: what has a state of its own."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


@dataclass(kw_only=True)
class State(Progressing):
    """Where a training is."""

    loss: float = 0.0
    """Summed over the images of the running epoch, like the counts below."""
    right: int = 0
    seen: int = 0
    edited: int = 0
    """Epochs after which ``each_epoch`` was called."""


class Tally:
    """Adds up the losses and right answers of an epoch without waiting for the device."""

    def __init__(self, state: State, fabric: Fabric) -> None:
        self._state = state
        self._fabric = fabric
        self._mark = time.perf_counter()
        if fabric.global_rank > 0:
            state.loss, state.right, state.seen = 0.0, 0, 0  # the first has the sums of all
        self._waiting: list[tuple[Tensor, Tensor, int]] = []

    def add(self, outcome: dict[str, Tensor], y: Tensor) -> None:
        """Note one step."""
        right = (outcome["logits"].detach().argmax(1) == y).sum()
        self._waiting.append((outcome["loss"].detach(), right, len(y)))
        if len(self._waiting) == LOOK_EVERY:
            self.flush()

    def flush(self) -> None:
        """Bring the state up to date; refuse a loss that is not a number."""
        state = self._state
        first = state.step - len(self._waiting)
        losses = [] if not self._waiting else torch.stack([w[0] for w in self._waiting]).tolist()
        rights = [] if not self._waiting else torch.stack([w[1] for w in self._waiting]).tolist()
        bad = 0
        # one by one, so that the sum does not depend on where a run was interrupted
        for index, (loss, right) in enumerate(zip(losses, rights, strict=True)):
            n = self._waiting[index][2]
            state.loss += loss * n
            state.right += right
            state.seen += n
            if not bad and not abs(loss) < float("inf"):
                bad = first + index + 1
        self._waiting = []
        now = time.perf_counter()
        state.seconds += now - self._mark
        self._mark = now
        bad = agree(self._fabric, bad)
        if bad:
            raise ValueError(f"the loss is not a finite number at step {bad}; use a lower lr")

    def gather(self) -> None:
        """Flush, and put the sums of all processes into the first and 0 into the others."""
        self.flush()
        if self._fabric.world_size == 1:
            return
        state = self._state
        own = torch.tensor([state.loss, state.right, state.seen], dtype=torch.float64)
        (loss, right, seen) = add_up(self._fabric, own.to(self._fabric.device))
        first = self._fabric.global_rank == 0
        (state.loss, state.right, state.seen) = (
            (loss, int(right), int(seen)) if first else (0.0, 0, 0)
        )


S = TypeVar("S", bound=Progressing)


class Saver:
    """Keeps a job in its run folder, and stops it when asked to by a signal.

    In all processes but the first there is no run folder, and nothing is written.
    """

    def __init__(self, session: Session, parts: Mapping[str, Part]) -> None:
        self._run = session.run
        self._fabric = session.fabric
        self._parts = parts
        self._seconds = session.checkpoint_seconds
        self._saved = time.monotonic()
        self._signals = StopSignals()

    def __enter__(self) -> "Saver":
        # without a folder to save in, signals are the caller's
        if self._run is not None or self._fabric.world_size > 1:
            self._signals.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._signals.__exit__()

    def restore(self, fresh: S) -> S:
        """The state to start from: the saved one, put back, or this one."""
        saved = None
        if self._run is not None:
            self._run.start()
            saved = self._run.checkpoint()
        saved = self._fabric.broadcast(saved)
        if saved is None:
            return fresh
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
        state = type(fresh)(**saved["state"])
        if self._run is not None and state.history:
            self._run.save_metrics(state.history)
        return state

    def save(self, state: Progressing) -> None:
        """Write a checkpoint."""
        if self._run is not None:
            parts = {name: part.state_dict() for name, part in self._parts.items()}
            self._run.save_checkpoint({**parts, "state": asdict(state)})
        self._saved = time.monotonic()

    def save_epoch(self, state: Progressing) -> None:
        """Write the checkpoint and the metrics after an epoch."""
        # in this order, metrics never run ahead of what would be gone on with
        self.save(state)
        if self._run is not None:
            self._run.save_metrics(state.history)
            self._run.save_event(state.history[-1])

    def after_step(self, state: Progressing, settle: Callable[[], None]) -> None:
        """Save if it is time, stop if somebody asked for it; `settle` makes the state complete."""
        if self._fabric.world_size > 1 and state.step % AGREE_EVERY:
            return
        due = self._run is not None and time.monotonic() - self._saved >= self._seconds
        wish = agree(self._fabric, STOP if self._signals.requested else SAVE if due else NOTHING)
        if wish == NOTHING:
            return
        settle()
        self.save(state)
        if wish == STOP:
            raise Interrupted(f"stopped after step {state.step}")

    def while_evaluating(self, state: Progressing) -> None:
        """Stop if somebody asked for it; several processes do so only between training steps."""
        if self._signals.requested and self._fabric.world_size == 1:
            self.save(state)
            raise Interrupted(f"stopped after step {state.step}")
