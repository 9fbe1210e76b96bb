"""The state of a loop, and when it is saved."""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import nn

from ..user_code import first_line
from .devices import max_over_processes
from .interrupts import Interrupted, StopSignals
from .processes import average_statistics
from .session import Session

__all__ = ["Checkpointer", "LoopState", "Stateful"]

# With several processes, the wish to save or to stop is exchanged this often.
AGREE_EVERY = 10
(NOTHING, SAVE, STOP) = range(3)


@dataclass(kw_only=True)
class LoopState:
    """The progress of a training or a search, without its networks and optimisers."""

    step: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    """One row for each finished epoch."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    """One row for each step of the running epoch."""
    seconds: float = 0.0
    """Time spent on the running epoch."""
    edited: int = 0
    """Epochs after which the network was changed by ``after_epoch``."""


class Stateful(Protocol):
    """A network, an optimiser: anything with a state of its own to save."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any: ...


class Checkpointer:
    """Saves a loop in its run folder, and stops it after SIGINT or SIGTERM.

    Only the first process has a run folder; the others write nothing.
    """

    def __init__(
        self, session: Session, parts: Mapping[str, Stateful], lr: float | None = None
    ) -> None:
        self._run = session.run
        self._fabric = session.fabric
        self._interval = session.checkpoint_seconds
        self._parts = parts
        self._training, self._lr = session.training, lr  # for messages
        self._state = LoopState()
        self._last_save = time.monotonic()
        self._signals = StopSignals()

    def __enter__(self) -> "Checkpointer":
        # without a folder to save in, signals are the caller's
        if self._run is not None or self._fabric.world_size > 1:
            self._signals.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._signals.__exit__()

    def restore(self) -> LoopState:
        """Start the run, and restore its last checkpoint if there is one; returns the live state,
        which every checkpoint saves."""
        saved = None
        if self._run is not None:
            self._run.start()
            saved = self._run.checkpoint()
        saved = self._fabric.broadcast(saved)
        if saved is not None:
            try:
                for name, part in self._parts.items():
                    part.load_state_dict(saved[name])
                self._state = LoopState(**saved["state"])
            except (KeyError, RuntimeError, TypeError, ValueError) as error:
                folder = "this run" if self._run is None else self._run.folder
                raise ValueError(
                    f"the checkpoint of {folder} does not fit its network ({first_line(error)}): "
                    "go back to the code that it was made with, or choose another --out"
                ) from error
            if self._run is not None and self._state.history:
                self._run.save_metrics(self._state.history)
        return self._state

    def save(self) -> None:
        parts = {name: part.state_dict() for name, part in self._parts.items()}
        # the loss of a step is computed before it changes the weights, so it shows this too late
        if (wrong := _not_finite(parts)) is not None:
            step = self._training.at(self._state.step, self._lr)
            raise ValueError(
                f"{wrong} has values that are not finite after {step}; {self._training.advice}"
            )
        if self._run is not None:
            self._run.save_checkpoint({**parts, "state": asdict(self._state)})
        self._last_save = time.monotonic()

    def save_epoch(self) -> None:
        """Save the checkpoint and the metrics of a finished epoch."""
        self._average_statistics()
        # in this order, metrics are never ahead of the checkpoint
        self.save()
        if self._run is not None:
            self._run.save_metrics(self._state.history)
            self._run.save_event(self._state.history[-1])

    def after_step(self, flush: Callable[[], None]) -> None:
        """Save if it is time to, stop if a signal came; ``flush`` updates the state before that."""
        if self._fabric.world_size > 1 and self._state.step % AGREE_EVERY:
            return
        self._average_statistics()
        due = self._run is not None and time.monotonic() - self._last_save >= self._interval
        wish = STOP if self._signals.requested else SAVE if due else NOTHING
        wish = max_over_processes(self._fabric, wish)
        if wish == NOTHING:
            return
        flush()
        self.save()
        if wish == STOP:
            raise Interrupted(f"stopped after step {self._state.step}")

    def _average_statistics(self) -> None:
        # wherever a checkpoint may be written, not only where one is: that depends on the time
        for part in self._parts.values():
            if isinstance(part, nn.Module):
                average_statistics(self._fabric, part)

    def during_evaluation(self, _: int) -> None:
        """Stop if a signal came; several processes only stop between training steps."""
        if self._signals.requested and self._fabric.world_size == 1:
            self.save()
            raise Interrupted(f"stopped after step {self._state.step}")


def _not_finite(state: Any, name: str = "") -> str | None:
    """The name of the first tensor in a state that has infinite values or NaN."""
    if isinstance(state, torch.Tensor):
        bad = state.is_floating_point() and not bool(state.isfinite().all())
        return name if bad else None
    if isinstance(state, Mapping):
        inner = ((f"{name}.{key}".lstrip("."), value) for key, value in state.items())
    elif isinstance(state, list | tuple):
        inner = ((name, value) for value in state)
    else:
        return None
    return next((found for key, value in inner if (found := _not_finite(value, key))), None)
