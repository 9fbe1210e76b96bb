"""Knowledge transfer: the losses by hand, what a student starts from, what a teacher must be."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import randomise
from transformable.data import Dataset, from_tensors
from transformable.settings import Distilling, Kd, Transfer
from transformable.slimming.sort_channels import sort_channels
from transformable.task import kd_loss
from transformable.training.distill import student_network


@pytest.fixture
def dataset() -> Dataset:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(48, 3, 8, 8, generator=random)
    y = torch.arange(48) % 4
    return from_tensors((x, y), (x, y), validation=0)


def softened(row: list[float], temperature: float) -> list[float]:
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("kd", ["soft", "paper"])
def test_the_loss_is_the_formula_term_by_term(kd: Kd) -> None:
    ours, theirs = [[1.0, -2.0, 0.5], [0.1, 0.2, 3.0]], [[2.0, 0.0, -1.0], [1.0, 1.5, -0.5]]
    labels, weight, temperature = [2, 0], 0.7, 3.0
    expected = 0.0
    for z, target, y in zip(ours, theirs, labels, strict=True):
        hard = -math.log(softened(z, 1.0)[y])
        q, p = softened(z, temperature), softened(target, temperature)
        if kd == "paper":
            match = -sum(a * math.log(b) for a, b in zip(p, q, strict=True))
            expected += weight * hard + (1 - weight) * match
        else:
            divergence = sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))
            expected += (1 - weight) * hard + weight * temperature**2 * divergence
    logits = torch.tensor(ours, dtype=torch.float64)
    loss = kd_loss(
        F.cross_entropy(logits, torch.tensor(labels)),
        logits,
        torch.tensor(theirs, dtype=torch.float64),
        kd=kd,
        weight=weight,
        temperature=temperature,
    )
    assert float(loss) == pytest.approx(expected / 2, rel=1e-12)


def test_the_distance_of_logits_is_the_share_of_the_teachers_squares() -> None:
    ours, theirs = [[4.0, -8.0, 2.0], [0.4, 0.8, 12.0]], [[8.0, 0.0, -4.0], [4.0, 6.0, -2.0]]
    away = squares = 0.0
    for z, target in zip(ours, theirs, strict=True):
        for own, given in zip(z, target, strict=True):
            centred = own - sum(z) / 3, given - sum(target) / 3
            away += (centred[0] - centred[1]) ** 2 / 6
            squares += centred[1] ** 2 / 6
    logits, answers = (torch.tensor(rows, dtype=torch.float64) for rows in (ours, theirs))
    of_labels = torch.tensor(0.25, dtype=torch.float64)

    def loss(factor: float, shift: float = 0.0) -> float:
        given = factor * logits + shift, factor * answers - shift
        return float(kd_loss(of_labels, *given, kd="logits", weight=0.7))

    stake = 4 * math.log(3)
    assert squares > stake
    assert loss(1) == pytest.approx(0.3 * 0.25 + 0.7 * stake * away / squares)
    # neither a constant nor the scale of both counts
    assert loss(5, shift=2) == pytest.approx(loss(1))
    # logits that say next to nothing are no large matter: then it is the squared distance itself
    assert loss(0.01) == pytest.approx(0.3 * 0.25 + 0.7 * 0.01**2 * away)


def test_a_student_learns_what_its_teacher_says_rather_than_the_labels(dataset: Dataset) -> None:
    torch.manual_seed(1)
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    student = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    settings = Distilling(epochs=60, batch_size=12, lr=0.02, kd_lambda=1.0, weight_decay=0.0)
    tas.distill(student, dataset, settings, teacher=teacher)
    x = torch.cat([x for x, _ in dataset.test.ordered(48)])
    answers, said = student(x).argmax(1), teacher(x).argmax(1)
    assert (answers == said).float().mean() > 0.95
    assert (answers == torch.arange(48) % 4).float().mean() < 0.6


def test_a_teacher_is_asked_once_a_batch_and_stays_as_it_is(dataset: Dataset) -> None:
    class Counting(nn.Module):
        calls = 0

        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc = nn.BatchNorm2d(3), nn.Linear(3, 4)

        def forward(self, x: Tensor) -> Tensor:
            if len(x) == 12:
                Counting.calls += 1
                assert not torch.is_grad_enabled()
            logits: Tensor = self.fc(self.norm(x).mean((2, 3)))
            return logits

    teacher = Counting().train()
    student = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    tas.distill(student, dataset, Distilling(epochs=2, batch_size=12), teacher=teacher)
    assert Counting.calls == 2 * 4
    assert teacher.training
    after = teacher.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(parameter.grad is None for parameter in teacher.parameters())


def test_where_a_student_starts() -> None:
    model = randomise(tas.models.build("resnet20", num_classes=4))
    space = tas.Space.trace(model, (3, 8, 8))
    x = torch.randn(4, 3, 8, 8)

    def outputs(transfer: Transfer, sort: bool, seed: int = 0) -> Tensor:
        student = student_network(
            model,
            space,
            space.smallest,
            transfer=transfer,
            sort=sort,
            seed=seed,
        )
        result: Tensor = student.eval()(x)
        return result.detach()

    first = tas.slim(model, space, space.smallest).eval()(x).detach()
    best = tas.slim(sort_channels(model, space), space, space.smallest).eval()(x).detach()
    assert not torch.allclose(first, best)
    kinds: tuple[Transfer, ...] = ("init", "init+kd")
    for kind in kinds:
        assert torch.equal(outputs(kind, sort=False), first)
        assert torch.equal(outputs(kind, sort=True), best)
    kinds = ("none", "kd")
    for kind in kinds:
        fresh = outputs(kind, sort=True)
        assert not torch.allclose(fresh, first)
        assert torch.equal(fresh, outputs(kind, sort=False))
        assert not torch.equal(fresh, outputs(kind, sort=True, seed=1))


@pytest.mark.parametrize(
    ("teacher", "reason"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 7)), "7 outputs, but tensors has 4 classes"),
        (nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), "cannot take tensors's images of 3x8x8"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused_before_training(
    dataset: Dataset, teacher: nn.Module, reason: str
) -> None:
    layer = nn.Linear(192, 4)
    student = nn.Sequential(nn.Flatten(), layer)
    before = layer.weight.clone()
    with pytest.raises(ValueError, match=f"the teacher does not fit: .*{reason}"):
        tas.distill(student, dataset, Distilling(epochs=1), teacher=teacher)
    assert torch.equal(layer.weight, before)


def test_without_a_teacher_there_is_no_distillation(dataset: Dataset) -> None:
    student = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))
    with pytest.raises(ValueError, match=r"transfer 'init\+kd' needs a teacher"):
        tas.distill(student, dataset, Distilling(epochs=1))
    plain = tas.distill(student, dataset, Distilling(epochs=1, transfer="init"))
    assert plain.n == 48
