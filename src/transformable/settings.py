"""How to train and how to search: frozen dataclasses, whose values are checked where they are made.

The text under each field is its ``--help``.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

__all__ = ["Distilling", "Metric", "Precision", "Preset", "Searching", "Training", "values"]

Metric = Literal["macs", "params"]
Precision = Literal["32-true", "bf16-mixed"]
Preset = Literal["quick", "paper"]

Align = Literal["pool", "linear", "pad"]
Sampling = Literal["gumbel", "softmax"]
Pull = Literal["piecewise", "multiplier"]
Fall = Literal["linear", "cosine"]
Transfer = Literal["none", "init", "kd", "init+kd"]
Kd = Literal["soft", "paper"]

RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to train: SGD, a learning rate per step (linear warm-up, then cosine to 0).

    >>> Training(epochs=3).epochs
    3
    >>> Training(batch_size=0)
    Traceback (most recent call last):
    ValueError: batch_size must be at least 1, not 0
    """

    epochs: int = 10
    """Passes over the training set."""
    batch_size: int = 64
    """Images per step, over all devices together."""
    lr: float = 0.1
    """Highest learning rate, reached at the end of the warm-up."""
    momentum: float = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov's momentum, where there is momentum."""
    weight_decay: float = 5e-4
    """Weight decay, on every parameter."""
    warmup_epochs: float = 0.5
    """Epochs, out of all, in which the learning rate rises from 0 (at most half of them)."""
    label_smoothing: float = 0.0
    """Share of each target that is spread over all classes."""
    validation: float = 0.05
    """Share of the training set that is held out to watch the training (0: none)."""

    def __post_init__(self) -> None:
        at_least(self, "epochs", 1)
        at_least(self, "batch_size", 1)
        above(self, "lr", 0)
        from_below(self, "momentum", 0, 1)
        at_least(self, "weight_decay", 0)
        at_least(self, "warmup_epochs", 0)
        from_below(self, "label_smoothing", 0, 1)
        from_below(self, "validation", 0, 1)


@dataclass(frozen=True, kw_only=True)
class Searching(Training):
    """How to search: the weights learn as in training, on one half of the images; the logits of the
    sizes learn on the other half, by Adam.

    >>> Searching(select=1)
    Traceback (most recent call last):
    ValueError: select=1 leaves the logits without a gradient, ...
    """

    epochs: int = 10
    """Passes over the half of the training set that the weights learn from."""
    validation: float = 0.0
    """Share of the training set that is held out of the search (0: none)."""
    pretrain_epochs: int = 0
    """Epochs of plain training before the search (tas search without trained weights)."""
    sort: bool = True
    """Put the most important channels of each layer first before the search begins."""
    hold_epochs: float = 0.0
    """Epochs at the beginning of the search in which only the weights learn."""
    select: int = 2
    """Candidates of a layer that each step draws."""
    force: bool = False
    """Allow select=1, whose logits learn nothing but the cost."""
    align: Align = "pool"
    """How feature maps of different widths are brought to one: pool, linear or pad."""
    sampling: Sampling = "gumbel"
    """Draw sizes at random (gumbel), or mix all of them by their probabilities (softmax)."""
    tau_start: float = 10.0
    """Temperature of the Gumbel-softmax at the first step."""
    tau_end: float = 0.1
    """Temperature at the last step."""
    tau_fall: Fall = "linear"
    """How the temperature falls: linear or cosine."""
    arch_lr: float = 0.001
    """Learning rate of the logits."""
    arch_weight_decay: float = 0.001
    """Weight decay of the logits."""
    pull: Pull = "piecewise"
    """What pulls the cost to the budget: the paper's piecewise loss, or a multiplier that grows
    while the expected cost is off the target."""
    lambda_cost: float = 2.0
    """Weight of that pull (0: none)."""
    tolerance: float = 0.05
    """How far from the target the cost may be, as a share of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "pretrain_epochs", 0)
        at_least(self, "hold_epochs", 0)
        if self.hold_epochs >= self.epochs:
            raise ValueError(
                f"hold_epochs must be below the {self.epochs} epochs, not {self.hold_epochs}"
            )
        at_least(self, "select", 1)
        if self.select == 1 and self.sampling == "gumbel" and not self.force:
            raise ValueError(
                "select=1 leaves the logits without a gradient, because the weight of a single "
                "candidate is always 1; use 2 or more, or force it"
            )
        one_of(self, "align", get_args(Align))
        one_of(self, "sampling", get_args(Sampling))
        one_of(self, "tau_fall", get_args(Fall))
        one_of(self, "pull", get_args(Pull))
        for name in ("tau_start", "tau_end", "arch_lr"):
            above(self, name, 0)
        for name in ("arch_weight_decay", "lambda_cost"):
            at_least(self, name, 0)
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be above 0 and below 1, not {self.tolerance}")


@dataclass(frozen=True, kw_only=True)
class Distilling(Training):
    """How to train a small network with what the unpruned one has learnt.

    >>> Distilling(transfer="copy")
    Traceback (most recent call last):
    ValueError: transfer must be one of none, init, kd, init+kd, not 'copy'
    """

    transfer: Transfer = "init+kd"
    """What the small network takes over: none, the unpruned network's channels to start from
    (init), its answers as targets (kd), or both (init+kd)."""
    sort: bool = True
    """With init: take the most important channels of each layer instead of its first ones."""
    kd: Kd = "soft"
    """Distillation: soft is (1 - w) CE + w T² KL; paper is the paper's equation, w CE + (1 - w) CE
    with the teacher."""
    kd_lambda: float = 0.9
    """The weight w."""
    temperature: float = 4.0
    """The temperature T that softens both networks' answers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of(self, "transfer", get_args(Transfer))
        one_of(self, "kd", get_args(Kd))
        if not 0 <= self.kd_lambda <= 1:
            raise ValueError(f"kd_lambda must be from 0 to 1, not {self.kd_lambda}")
        above(self, "temperature", 0)


def values(config: Any) -> dict[str, Any]:
    """The fields of a config that are set, in order."""
    pairs = ((field.name, getattr(config, field.name)) for field in fields(config))
    return {name: value for name, value in pairs if value is not None}


def at_least(config: Any, name: str, low: float) -> None:
    value = getattr(config, name)
    if not low <= value < math.inf:
        raise ValueError(f"{name} must be at least {low}, not {value}")


def above(config: Any, name: str, low: float) -> None:
    value = getattr(config, name)
    if not low < value < math.inf:
        raise ValueError(f"{name} must be above {low}, not {value}")


def from_below(config: Any, name: str, low: float, high: float) -> None:
    value = getattr(config, name)
    if not low <= value < high:
        raise ValueError(f"{name} must be at least {low} and below {high}, not {value}")


def named(config: Any, *names: str) -> None:
    for name in names:
        if not getattr(config, name):
            raise ValueError(f"{name} must not be empty")


def one_of(config: Any, name: str, known: tuple[str, ...]) -> None:
    value = getattr(config, name)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(known)}, not {value!r}")
