"""Transfer from the unpruned network to the small one: its weights, its answers as targets."""

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from lightning_fabric import Fabric
from torch import Tensor, nn

from ..data import Dataset
from ..settings import Distilling, Kd, Transfer
from ..shape import Shape
from ..slimming.slim import slim
from ..slimming.sort_channels import sort_channels
from ..tracing.space import Space
from .checks import check_teacher
from .session import Session
from .train import Objective, Trained, cross_entropy, train

__all__ = ["distill", "distillation", "kd_loss", "student_network"]


def distill(
    student: nn.Module,
    dataset: Dataset,
    settings: Distilling | None = None,
    session: Session | None = None,
    *,
    teacher: nn.Module | None = None,
    after_epoch: Callable[[nn.Module], None] | None = None,
    epochs_before: float = 0.0,
) -> Trained:
    """Train ``student`` in place, as ``train`` does, with a teacher's answers as targets.

    ``slim`` and ``student_network`` make students; the teacher is not changed. Without ``kd`` in
    ``settings.transfer`` only the labels are used, and no teacher is needed. ``after_epoch`` and
    ``epochs_before`` are those of ``train``.

    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> teacher = models.build("resnet20", num_classes=2)
    >>> space = Space.trace(teacher, (3, 8, 8))
    >>> student = slim(teacher, space, space.smallest)
    >>> dataset = from_tensors(images, images, validation=0)
    >>> settings = Distilling(epochs=1, batch_size=10)
    >>> distill(student, dataset, settings, teacher=teacher).n
    40
    """
    settings = settings or Distilling()
    session = session or Session()
    objective = None
    if "kd" in settings.transfer:
        if teacher is None:
            raise ValueError(f"transfer {settings.transfer!r} needs a teacher; or use none")
        objective = distillation(teacher, dataset, settings, session.fabric)
    return train(
        student,
        dataset,
        settings,
        session,
        objective=objective,
        after_epoch=after_epoch,
        epochs_before=epochs_before,
    )


def student_network(
    model: nn.Module, space: Space, shape: Shape, *, transfer: Transfer, sort: bool, seed: int
) -> nn.Module:
    """The small network of a shape before its training, with the model's weights or fresh ones.

    Weights are those of the leading channels, or if sorted, of the most important ones; channels
    that the shape names are kept as they are.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if "init" not in transfer:
            return slim(model, space, shape, weights="fresh")
        if sort and not shape.channels:
            model = sort_channels(model, space)
        return slim(model, space, shape)


def distillation(
    teacher: nn.Module, dataset: Dataset, settings: Distilling, fabric: Fabric
) -> Objective:
    """Cross-entropy with the labels, and with the teacher's answers to the same images."""
    check_teacher(teacher, dataset.info)
    teacher = copy.deepcopy(teacher).to(fabric.device).eval()
    teacher.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    of_labels = cross_entropy(settings.label_smoothing)

    def objective(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        with torch.no_grad(), fabric.autocast():
            targets = teacher(x)
        outcome = of_labels(model, x, y)
        loss = kd_loss(
            outcome["loss"],
            outcome["logits"].float(),
            targets.float(),
            kd=settings.kd,
            weight=settings.kd_lambda,
            temperature=settings.temperature,
        )
        return {"loss": loss, "logits": outcome["logits"]}

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
    """The loss of the labels, mixed with the distance of the softened logits to the teacher's.

    In ``soft`` the weight w is the teacher's: (1 - w) CE + w T² KL. In ``paper``, eq. 10 to the
    letter, it is that of the labels: w CE + (1 - w) L_match.

    >>> logits, labels = torch.zeros(1, 4), torch.tensor([0])
    >>> of_labels = F.cross_entropy(logits, labels)  # log 4
    >>> [round(float(kd_loss(of_labels, logits, logits, kd=kd)), 3) for kd in ("soft", "paper")]
    [0.139, 1.386]
    """
    soft, hard = logits / temperature, targets / temperature
    if kd == "paper":
        return weight * of_labels + (1 - weight) * F.cross_entropy(soft, hard.softmax(1))
    divergence = F.kl_div(
        soft.log_softmax(1), hard.log_softmax(1), reduction="batchmean", log_target=True
    )
    return (1 - weight) * of_labels + weight * temperature**2 * divergence
