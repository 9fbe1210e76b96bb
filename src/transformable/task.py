"""What a network learns, how it is scored, and how far its outputs are from those of another.

``Classification`` is the default; ``own_task.py`` has the one that is made from users' functions.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .settings import Kd

__all__ = ["Classification", "Objective", "Task", "cross_entropy", "kd_loss"]

STAKE = 4.0
"""The loss ``logits`` of constant logits, in units of the entropy of equal classes."""

Objective = Callable[[nn.Module, Tensor, Tensor], dict[str, Tensor]]
"""``objective(model, x, y)`` returns ``loss``, which is minimised, and the ``inputs`` and
``outputs`` of the model."""


class Task(ABC):
    """What a network learns from images and targets."""

    scores: ClassVar[tuple[str, ...]]
    """The names of its scores, the one that counts first."""

    @abstractmethod
    def names(self) -> dict[str, str]:
        """What distinguishes this task from others in the settings of a run."""

    @abstractmethod
    def objective(self, label_smoothing: float = 0.0) -> Objective:
        """What plain training minimises."""

    @abstractmethod
    def sums(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The loss and each of the ``scores`` of a model in evaluation mode, summed over images."""

    @abstractmethod
    def training_sums(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Scores, summed over images, that can be computed from the outputs of a training step."""

    @abstractmethod
    def distance(self, outputs: Tensor, answers: Tensor) -> Tensor:
        """How far the outputs are from a teacher's, in nats per image."""

    @abstractmethod
    def distillation_loss(
        self,
        of_labels: Tensor,
        outputs: Tensor,
        answers: Tensor,
        batch: tuple[Tensor, Tensor],
        *,
        kd: Kd = "soft",
        weight: float = 0.9,
        temperature: float = 4.0,
    ) -> Tensor:
        """The loss of the objective, mixed with the distance of the outputs to a teacher's;
        ``weight`` is that of the distance in ``soft``, that of the objective in ``paper``."""

    @abstractmethod
    def surprise(self, outputs: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
        """The negative log-likelihood, summed over images, of targets that are drawn from the
        distribution that the outputs themselves predict."""

    @abstractmethod
    def check_output(self, output: Any, name: str, num_classes: int) -> None:
        """Raise a ValueError unless the output for one image of this dataset fits the task."""

    @abstractmethod
    def try_out(self, model: nn.Module, images: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """Raise a ValueError unless a model in evaluation mode can learn from some images, which
        are read when they are asked for."""


@dataclass(frozen=True)
class Classification(Task):
    """Cross-entropy and accuracy of class logits (N, classes), and integer labels."""

    scores = ("accuracy", "top5")

    def names(self) -> dict[str, str]:
        return {}

    def objective(self, label_smoothing: float = 0.0) -> Objective:
        return cross_entropy(label_smoothing)

    def sums(self, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = model(x).float()
        guesses = logits.topk(min(5, logits.shape[1]), dim=1).indices
        right = guesses == y[:, None]
        loss = F.cross_entropy(logits, y, reduction="sum")
        return torch.stack([loss, right[:, 0].sum(), right.sum()])

    def training_sums(self, outputs: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {"accuracy": (outputs.detach().argmax(1) == y).sum()}

    def distance(self, outputs: Tensor, answers: Tensor) -> Tensor:
        return kd_loss(outputs.new_zeros(()), outputs, answers, weight=1.0)

    def distillation_loss(
        self,
        of_labels: Tensor,
        outputs: Tensor,
        answers: Tensor,
        batch: tuple[Tensor, Tensor],
        *,
        kd: Kd = "soft",
        weight: float = 0.9,
        temperature: float = 4.0,
    ) -> Tensor:
        return kd_loss(of_labels, outputs, answers, kd=kd, weight=weight, temperature=temperature)

    def surprise(self, outputs: Tensor, generator: torch.Generator, temperature: float) -> Tensor:
        logits = outputs / temperature
        answers = torch.multinomial(logits.detach().softmax(1).cpu(), 1, generator=generator)
        return F.cross_entropy(logits, answers[:, 0].to(logits.device), reduction="sum")

    def check_output(self, output: Any, name: str, num_classes: int) -> None:
        if not num_classes:
            raise ValueError(f"{name} has no classes; give an objective and a score")
        if not isinstance(output, Tensor):
            kind = type(output).__name__
            raise ValueError(f"the model returns {kind} instead of a tensor of logits")
        if output.ndim != 2 or len(output) != 1:
            raise ValueError(
                f"the model returns an output of {tuple(output.shape)} for one image of {name}, "
                f"instead of (1, {num_classes})"
            )
        if output.shape[1] != num_classes:
            raise ValueError(
                f"the model returns {output.shape[1]} outputs, but {name} has {num_classes} classes"
            )

    def try_out(self, model: nn.Module, images: Callable[[], tuple[Tensor, Tensor]]) -> None:
        pass  # the check of the output needs no images


def cross_entropy(label_smoothing: float = 0.0) -> Objective:
    """The objective of plain training to classify."""

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        logits = model(x)
        if not isinstance(logits, Tensor):
            kind = type(logits).__name__
            raise ValueError(f"in training the model returns {kind} instead of a tensor of logits")
        loss = F.cross_entropy(logits.float(), y, label_smoothing=label_smoothing)
        return {"loss": loss, "inputs": x, "outputs": logits}

    return objective


def kd_loss(
    of_labels: Tensor,
    logits: Tensor,
    targets: Tensor,
    *,
    kd: Kd = "soft",
    weight: float = 0.9,
    temperature: float = 4.0,
) -> Tensor:
    """The loss of the labels, mixed with the distance of the logits to the teacher's.

    In ``soft`` and ``logits`` the weight w is the teacher's: (1 - w) CE + w T² KL of the softened
    logits, or (1 - w) CE + w times the squared distance of the logits, less their means, as a share
    of the teacher's squares. In ``paper``, eq. 10 to the letter, it is that of the labels:
    w CE + (1 - w) L_match.

    >>> logits, labels = torch.tensor([[1.0, 0.0, 0.0, -1.0]]), torch.tensor([0])
    >>> of_labels = F.cross_entropy(logits, labels)
    >>> kinds: list[Kd] = ["soft", "logits", "paper"]
    >>> [round(float(kd_loss(of_labels, logits, logits, kd=kd)), 3) for kd in kinds]
    [0.063, 0.063, 0.701]
    """
    if kd == "logits":
        own, given = (z - z.mean(1, keepdim=True) for z in (logits, targets))
        stake = STAKE * math.log(logits.shape[1])
        # the small logits of an unsure teacher must not make the relative error large
        missed = (own - given).square().mean() / given.square().mean().clamp(min=stake)
        return (1 - weight) * of_labels + weight * stake * missed
    soft, hard = logits / temperature, targets / temperature
    if kd == "paper":
        return weight * of_labels + (1 - weight) * F.cross_entropy(soft, hard.softmax(1))
    divergence = F.kl_div(
        soft.log_softmax(1), hard.log_softmax(1), reduction="batchmean", log_target=True
    )
    return (1 - weight) * of_labels + weight * temperature**2 * divergence
