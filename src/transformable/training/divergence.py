"""Error messages for a training whose numbers are no longer finite."""

from dataclasses import dataclass

__all__ = ["TrainingName"]


@dataclass(frozen=True, kw_only=True)
class TrainingName:
    """The name of a training in messages, and the section of its settings.

    >>> small = TrainingName(what="the training of the small network", section="student.")
    >>> small.at(13, lr=0.05)
    'step 13 of the training of the small network (lr 0.05)'
    >>> small.advice
    'use a lower student.lr, or more student.warmup_epochs (or 32-true instead of bf16-mixed)'
    """

    what: str = "the training"
    section: str = ""
    """The section of the settings, with a dot, where there are several."""
    chosen: str = ""
    """How the learning rate was chosen, if the settings left it open."""

    def at(self, step: int, lr: float | None = None) -> str:
        """A step of the training, with its learning rate if that is known."""
        why = f", {self.chosen}" if self.chosen else ""
        rate = "" if lr is None else f" (lr {lr:g}{why})"
        return f"step {step} of {self.what}{rate}"

    @property
    def advice(self) -> str:
        """What to change."""
        rate = f"a lower {self.section}lr, or more {self.section}warmup_epochs"
        return f"use {rate} (or 32-true instead of bf16-mixed)"
