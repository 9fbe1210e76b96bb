"""How to train and how to search: frozen dataclasses that check their values when they are made.

The text under a field is its ``--help``. What a field may be is part of its type: a Literal, or a
constraint such as ``at_least(1)``; ``check_fields`` reads these annotations.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

__all__ = [
    "FRACTION",
    "MILLION",
    "VALIDATION",
    "Distilling",
    "Kd",
    "Metric",
    "Precision",
    "Preset",
    "Residual",
    "Runtime",
    "Searching",
    "Sizes",
    "Training",
    "Transfer",
    "above",
    "at_least",
    "between",
    "check_fields",
    "plain_values",
]

Metric = Literal["macs", "params", "latency"]
Runtime = Literal["torch", "onnxruntime"]
Precision = Literal["32-true", "bf16-mixed"]
Preset = Literal["quick", "scratch", "paper"]
Residual = Literal["pad", "project", "tied"]
Sizes = Literal["both", "width", "depth"]

Start = Literal["scratch", "even", "sensitivity"]
Targets = Literal["labels", "teacher"]
Images = Literal["halves", "shared"]
Align = Literal["pool", "linear", "pad"]
Sampling = Literal["gumbel", "softmax"]
Pull = Literal["piecewise", "multiplier"]
Decay = Literal["linear", "cosine"]
Transfer = Literal["none", "init", "kd", "init+kd"]
Kd = Literal["soft", "logits", "paper"]

VALIDATION = 0.05
"""Default share of the training images that is held out."""
RATIOS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


class Constraint(NamedTuple):
    """What a number must be, in words and as a test."""

    words: str
    holds: Callable[[float], bool]


def at_least(low: float) -> Constraint:
    return Constraint(f"at least {low}", lambda value: low <= value < math.inf)


def above(low: float) -> Constraint:
    return Constraint(f"above {low}", lambda value: low < value < math.inf)


def between(low: float, high: float) -> Constraint:
    return Constraint(f"above {low} and below {high}", lambda value: low < value < high)


TEXTS = (str, str | None)
NUMBERS: dict[Any, str] = {int: "a whole number", float: "a number", bool: "True or False"}
FRACTION = Constraint("at least 0 and below 1", lambda value: 0 <= value < 1)
MILLION = Constraint("at most 1,000,000", lambda value: value <= 1_000_000)
UP_TO_ONE = Constraint("from 0 to 1", lambda value: 0 <= value <= 1)


def check_fields(config: Any) -> None:
    """Raise a ValueError for the first field whose value its annotation does not allow."""
    for name, (kind, choices, constraints) in _rules(config.__class__).items():
        value = getattr(config, name)
        if value is None:
            continue
        if kind in TEXTS and value == "":
            raise ValueError(f"{name} must not be empty")
        if kind in NUMBERS and not _is_number(value, kind):
            raise ValueError(f"{name} must be {NUMBERS[kind]}, not {value!r}")
        if choices and value not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
        for constraint in constraints:
            if not constraint.holds(value):
                raise ValueError(f"{name} must be {constraint.words}, not {value}")


@lru_cache
def _rules(kind: Any) -> Mapping[str, tuple[Any, tuple[str, ...], tuple[Constraint, ...]]]:
    """For each field its type, its choices and its constraints."""
    hints = get_type_hints(kind, include_extras=True)
    rules = {}
    for field in fields(kind):
        hint: Any = hints[field.name]
        constraints: tuple[Constraint, ...] = ()
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            constraints = tuple(extra for extra in extras if isinstance(extra, Constraint))
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        inner = [kind for kind in get_args(hint) if kind is not type(None)]
        if not choices and len(inner) == 1 and inner[0] in NUMBERS:  # a number, or None
            [hint] = inner
        rules[field.name] = (hint, choices, constraints)
    return rules


def _is_number(value: Any, kind: Any) -> bool:
    # True is an int for Python, but no number for a reader
    wanted = {int: Integral, float: Real, bool: bool}[kind]
    return isinstance(value, wanted) and isinstance(value, bool) == (kind is bool)


def plain_values(config: Any) -> dict[str, Any]:
    """The fields of a config that are set, as plain values that JSON and TOML can hold.

    >>> plain_values(Training(epochs=3))["epochs"]
    3
    """
    pairs = ((field.name, getattr(config, field.name)) for field in fields(config))
    return {name: _plain(value) for name, value in pairs if value is not None}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return plain_values(value)
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class Training:
    """How to train: SGD, a learning rate per step (linear warm-up, then cosine to 0).

    >>> Training(epochs=3).epochs
    3
    >>> Training(batch_size=0)
    Traceback (most recent call last):
    ValueError: batch_size must be at least 1, not 0
    """

    epochs: Annotated[int, at_least(1), MILLION] = 10
    """Passes over the training set."""
    batch_size: Annotated[int, at_least(1), MILLION] = 64
    """Images per step, over all devices together."""
    accumulate: Annotated[int, at_least(1), MILLION] = 1
    """Number of parts that a batch is split into, which go through the network one after the other
    to save memory; batch norms see one part at a time."""
    lr: Annotated[float, at_least(0)] = 0.1
    """Highest learning rate, reached at the end of the warm-up (0: chosen by the size of the
    filters of the trained network that the training starts from)."""
    momentum: Annotated[float, FRACTION] = 0.9
    """Momentum of SGD."""
    nesterov: bool = True
    """Nesterov momentum, if the momentum is above 0."""
    weight_decay: Annotated[float, at_least(0)] = 5e-4
    """Weight decay, on every parameter."""
    warmup_epochs: Annotated[float, at_least(0)] = 0.5
    """Epochs, out of all, in which the learning rate rises from 0 (at most half of them)."""
    label_smoothing: Annotated[float, FRACTION] = 0.0
    """Share of each target that is spread over all classes."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.accumulate > self.batch_size:
            raise ValueError(
                f"accumulate must be at most the batch_size of {self.batch_size}, not "
                f"{self.accumulate}"
            )

    @property
    def images_at_once(self) -> int:
        """Images that go through the network together."""
        return -(-self.batch_size // self.accumulate)


@dataclass(frozen=True, kw_only=True)
class Searching(Training):
    """How to search: the weights learn as in training, the logits of the sizes by Adam;
    alternately, each on its own half of the images, or together on all of them.

    The defaults are those of the preset quick, which starts from a trained network.

    >>> Searching(select=1)
    Traceback (most recent call last):
    ValueError: select=1 leaves the logits without a gradient, ...
    """

    epochs: Annotated[int, at_least(0), MILLION] = 1
    """Passes over the training images; with images=halves each image trains either the weights or
    the logits of the sizes (0: the shape is derived from the initial probabilities)."""
    batch_size: Annotated[int, at_least(1), MILLION] = 128
    """Images per step, over all devices together."""
    lr: Annotated[float, at_least(0)] = 0.0
    """Highest learning rate of the weights, reached at the end of the warm-up (0: chosen by the
    size of the trained network's filters)."""
    warmup_epochs: Annotated[float, at_least(0)] = 0.05
    """Epochs, out of all, in which the learning rate rises from 0 (at most half of them)."""
    sort: bool = True
    """Put the most important channels of each layer first before the search begins."""
    start: Start = "sensitivity"
    """Initialisation: fresh weights (scratch); the network's weights with uniform probabilities,
    channels sorted by their weights (even); or the network's weights with probabilities, and an
    order of the channels, by how much its outputs depend on each size and channel (sensitivity)."""
    targets: Targets = "teacher"
    """Targets of the search: the labels, or the labels and the outputs of the trained network, as
    in distillation (teacher)."""
    images: Images = "shared"
    """Which images the weights and the sizes learn from: alternately, each from its own half
    (halves); or both from all of them, in one step (shared)."""
    inherit: bool = True
    """Start the small network from the weights that the search has trained, and continue the
    schedule of the learning rate in its training."""
    judged: Annotated[int, at_least(0), MILLION] = 0
    """How many shapes are drawn from the learned probabilities and compared on held-out images; the
    best is taken (0: the most probable one)."""
    hold_epochs: Annotated[float, at_least(0)] = 0.0
    """Epochs at the beginning of the search in which only the weights learn."""
    select: Annotated[int, at_least(1)] = 8
    """Candidates of a layer that each step draws."""
    force: bool = False
    """Allow select=1, with which the logits learn from the cost alone."""
    align: Align = "pad"
    """How feature maps of different widths are aligned: pool, linear or pad (with zeros)."""
    sampling: Sampling = "gumbel"
    """Draw sizes at random (gumbel), or mix all of them by their probabilities (softmax)."""
    tau_start: Annotated[float, above(0)] = 0.5
    """Temperature of the Gumbel-softmax at the first step."""
    tau_end: Annotated[float, above(0)] = 0.3
    """Temperature at the last step."""
    sharpen: Annotated[float, above(0)] = 10.0
    """Factor on the logits at the last step; it grows geometrically from 1, so that a short search
    ends with nearly one shape, whose weights it then trains (1: none)."""
    tau_fall: Decay = "linear"
    """How the temperature falls: linear or cosine."""
    arch_lr: Annotated[float, above(0)] = 0.05
    """Learning rate of the logits."""
    arch_weight_decay: Annotated[float, at_least(0)] = 0.001
    """Weight decay of the logits."""
    pull: Pull = "multiplier"
    """Cost penalty: the paper's piecewise loss, or a Lagrange multiplier that grows while the
    expected cost is off the target."""
    lambda_cost: Annotated[float, at_least(0)] = 2.0
    """Weight of the cost penalty (0: none)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hold_epochs >= max(1, self.epochs):
            raise ValueError(
                f"hold_epochs must be below the {self.epochs} epochs, not {self.hold_epochs}"
            )
        if self.select == 1 and self.sampling == "gumbel" and not self.force:
            raise ValueError(
                "select=1 leaves the logits without a gradient, because the weight of a single "
                "candidate is always 1; use 2 or more, or force it"
            )


@dataclass(frozen=True, kw_only=True)
class Distilling(Training):
    """How to train a small network with what the unpruned one has learnt.

    The defaults are those of the preset quick, for a network that keeps trained weights.

    >>> Distilling(transfer="copy")
    Traceback (most recent call last):
    ValueError: transfer must be one of none, init, kd, init+kd, not 'copy'
    """

    batch_size: Annotated[int, at_least(1), MILLION] = 128
    """Images per step, over all devices together."""
    lr: Annotated[float, at_least(0)] = 0.0
    """Highest learning rate, reached at the end of the warm-up (0: chosen by the size of the
    unpruned network's filters, or 0.1 for a network that starts fresh)."""
    warmup_epochs: Annotated[float, at_least(0)] = 0.05
    """Epochs, out of all, in which the learning rate rises from 0 (at most half of them)."""
    transfer: Transfer = "init+kd"
    """What the small network takes over: none, the unpruned network's channels to start from
    (init), its outputs as targets (kd), or both (init+kd)."""
    kd: Kd = "logits"
    """Distillation: logits is (1 - w) CE + w times the relative squared error of the logits, best
    in few epochs from a trained network; soft is (1 - w) CE + w T² KL; paper is the paper's
    equation, w CE + (1 - w) CE with the teacher."""
    kd_lambda: Annotated[float | None, UP_TO_ONE] = None
    """The weight w (default: 0.9, or less for logits and soft if the unpruned network gets many of
    its training images wrong, down to 0.5)."""
    temperature: Annotated[float, above(0)] = 4.0
    """The temperature T that softens both networks' outputs."""
