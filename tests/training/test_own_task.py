"""Tasks of one's own: an objective and a score, from training to the teacher's answers."""

import copy
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from transformable.data import Dataset, from_datasets, from_tensors
from transformable.own_task import OwnTask
from transformable.runs.run_folder import Run
from transformable.task import Classification
from transformable.training.checks import check_task
from transformable.training.devices import make_fabric
from transformable.training.distill import with_answers
from transformable.training.interrupts import Interrupted

Batch = tuple[Tensor, Tensor]
SETTINGS = tas.Training(epochs=2, batch_size=4, lr=0.05)


def objective(model: nn.Module, batch: Batch) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def score(model: nn.Module, batch: Batch) -> Any:
    return -(model(batch[0]) - batch[1]).abs().mean(1)


TASK = OwnTask(objective, score)


def network() -> nn.Sequential:
    torch.manual_seed(3)
    layers = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4 * 16, 2))


class Items:
    """Images with new noise every time, and two numbers to be told from each."""

    def __init__(self, count: int) -> None:
        self.targets = torch.rand(count, 2, generator=torch.Generator().manual_seed(count))

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> Batch:
        target = self.targets[index]
        image = torch.cat([target[0].expand(2, 4), target[1].expand(2, 4)])
        return image[None] + 0.1 * torch.randn(1, 4, 4), target


def items(workers: int = 0) -> Dataset:
    return from_datasets(Items(40), Items(9), workers=workers, objective=objective, score=score)


def test_classes_by_an_objective_of_ones_own_give_the_same_bits() -> None:
    x = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    data = from_tensors((x, torch.arange(40) % 2), (x[:7], torch.arange(7) % 2))

    def right(model: nn.Module, batch: Batch) -> Any:
        return model(batch[0]).argmax(1) == batch[1]

    plain, own = network(), network()
    as_classes = tas.train(plain, data, SETTINGS)
    as_own = tas.train(
        own, data, SETTINGS, objective=lambda m, b: F.cross_entropy(m(b[0]), b[1]), score=right
    )
    assert as_own.score == as_classes.accuracy == as_classes.score
    assert as_own.tested == {"score": as_classes.accuracy}
    assert as_own.scores()["n"] == 7
    for name, value in plain.state_dict().items():
        assert torch.equal(value, own.state_dict()[name])
    for mine, theirs in zip(as_own.history, as_classes.history, strict=True):
        assert mine["train_loss"] == theirs["train_loss"]
        assert mine["validation_loss"] == pytest.approx(theirs["validation_loss"], rel=1e-6)
        assert mine["validation_score"] == theirs["validation_accuracy"]
        assert "train_accuracy" not in mine


def test_every_image_counts_once_in_a_score() -> None:
    values = torch.tensor([1.0, 2.0, 3.0, 4.0, 10.0]).view(5, 1, 1, 1)
    five = list(zip(values, values, strict=True))
    split = from_datasets(five, five, objective=objective, score=score).test

    def mean(model: nn.Module, batch: Batch) -> float:
        return float(batch[0].mean())

    def each(model: nn.Module, batch: Batch) -> Tensor:
        return batch[0].flatten()

    for one in (mean, each):
        task = OwnTask(lambda m, b: b[0].mean(), one)
        found = tas.evaluate(nn.Identity(), split, batch_size=2, task=task)
        # batches of 2, 2 and 1: the mean of their means would be 5
        assert found == {"score": 4.0, "loss": 4.0, "n": 5}


def test_a_regressor_learns() -> None:
    trained = tas.train(network(), items(), tas.Training(epochs=20, batch_size=4, lr=0.05))
    # 0.25 is the mean distance of the middle
    assert trained.score > -0.08
    assert trained.history[-1]["validation_score"] > trained.history[0]["validation_score"]


def test_the_distance_of_outputs_is_in_units_of_their_variance() -> None:
    # variances 1 and 100; 0.3 ** 2 = 0.09 of them is the noise
    answers = torch.tensor([[1.0, 10.0], [-1.0, -10.0]])
    outputs = answers + torch.tensor([[0.3, 0.0], [0.0, 6.0]])
    wanted = (0.09 / 0.09 + 36 / 9) / 2 / 4
    assert float(TASK.distance(outputs, answers)) == pytest.approx(wanted)
    # the channels of maps have one variance each, over images and positions
    maps, changed = (t.view(2, 2, 1, 1).expand(2, 2, 3, 3) for t in (answers, outputs))
    assert float(TASK.distance(changed, maps)) == pytest.approx(wanted)
    # an output that never changes counts by its size, one that is 0 as it is
    still = torch.tensor([[100.0, 0.0], [100.0, 0.0]])  # a variance of 1e-6 * 100 ** 2, and of 1
    wanted = (1 / 0.01 + 1) / 0.09 / 2 / 2
    assert float(TASK.distance(still + 1, still)) == pytest.approx(wanted, rel=1e-4)
    assert float(TASK.distance(torch.tensor([2.0, 4.0]), torch.tensor([1.0, 3.0]))) == (
        pytest.approx(1 / 0.09 / 2)
    )


def test_in_distillation_the_distance_weighs_what_is_at_stake() -> None:
    answers = torch.tensor([[1.0, 10.0], [-1.0, -10.0]])
    outputs = answers + torch.tensor([[0.3, 0.0], [0.0, 6.0]])
    y = answers + 1  # the mean square error is 1 of the answers, 51.5 of their mean (0, 0)
    match = (51.5 - 1) * (0.09 / 1 + 36 / 100) / 4
    two, batch = torch.tensor(2.0), (torch.zeros(2, 1, 4, 4), y)

    def loss(unit: float = 1.0, **mixture: Any) -> float:
        task = OwnTask(lambda m, b: unit * F.mse_loss(m(b[0]), b[1]) - 7, score)
        return float(task.distillation_loss(two, outputs, answers, batch, **mixture))

    assert loss(weight=1.0) == pytest.approx(match)
    assert loss(weight=0.9) == pytest.approx(0.1 * 2 + 0.9 * match)
    assert loss(weight=0.9, kd="paper") == pytest.approx(0.9 * 2 + 0.1 * match)
    # in the unit of the objective
    assert loss(0.01, weight=1.0) == pytest.approx(0.01 * match)
    # answers that are worth nothing are not followed
    assert loss(-1.0, weight=1.0) == 0


def test_an_answer_is_drawn_from_a_normal_distribution_around_the_outputs() -> None:
    outputs = torch.tensor([[1.0, 10.0], [-1.0, -10.0]], requires_grad=True)
    TASK.surprise(outputs, torch.Generator().manual_seed(0), 4.0).backward()  # type: ignore[no-untyped-call]
    drawn = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    assert outputs.grad is not None
    torch.testing.assert_close(outputs.grad, -drawn / torch.tensor([0.3, 3.0]))


def test_the_teacher_is_given_what_the_network_is_given() -> None:
    student, teacher = network().eval(), network().eval()
    last: Any = teacher[-1]
    last.bias.data += 1
    x, y = torch.rand(4, 1, 4, 4), torch.rand(4, 2)
    task = OwnTask(lambda m, b: F.mse_loss(m(-b[0]), b[1]), score)
    mixed = with_answers(task.objective(), teacher, task, make_fabric("cpu"), weight=0.5)
    outputs, answers = student(-x), teacher(-x)
    of_labels = F.mse_loss(outputs, y)
    wanted = task.distillation_loss(of_labels, outputs, answers, (x, y), weight=0.5)
    torch.testing.assert_close(mixed(student, x, y)["loss"], wanted)


def test_distillation_brings_the_outputs_to_the_teachers() -> None:
    data = items()
    teacher = tas.train(network(), data, tas.Training(epochs=8, batch_size=4)).model
    settings = tas.Distilling(epochs=4, batch_size=4, lr=0.005, kd_lambda=1.0)
    student = network()
    x, _ = next(data.test.ordered(9))

    def distance() -> Any:
        return (student.eval()(x) - teacher.eval()(x)).square().mean().item()

    before = distance()
    tas.distill(student, data, settings, teacher=teacher)
    assert distance() < before / 10
    with pytest.raises(ValueError, match="the teacher does not fit: the model cannot take"):
        tas.distill(student, data, settings, teacher=nn.Linear(3, 3))


@pytest.mark.parametrize("workers", [0, 2])
def test_own_items_go_on_to_the_same_bits_after_a_stop(tmp_path: Path, workers: int) -> None:
    whole = tas.train(network(), items(workers), SETTINGS)
    steps = []

    def stopping(model: nn.Module, batch: Batch) -> Tensor:
        steps.append(model.training)
        if sum(steps) == 12:  # in the second epoch
            os.kill(os.getpid(), signal.SIGTERM)
        return objective(model, batch)

    with Run.open(tmp_path / "run", {}) as run:
        own: Any = {"objective": stopping, "score": score}
        with pytest.raises(Interrupted, match=r"stopped after step 12$"):
            tas.train(network(), items(workers), SETTINGS, tas.Session(run=run), **own)
        other = copy.deepcopy(network()).apply(_forget)
        resumed = tas.train(other, items(workers), SETTINGS, tas.Session(run=run))
    assert resumed.tested == whole.tested
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name])


def _forget(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data.zero_()


def two_calls(model: nn.Module, batch: Batch) -> Any:
    return model(batch[0]).mean() + model(batch[0]).mean()


def nothing(model: nn.Module, batch: Batch) -> None:
    model(batch[0])


BAD_OBJECTIVES: list[tuple[Any, str]] = [
    (
        lambda m, b: (m(b[0]) - b[1]).square().mean(1),
        "float32 tensor of shape (8,) instead of a tensor with one",
    ),
    (lambda m, b: m(b[0]).mean().item(), "instead of a tensor with one number"),
    (lambda m, b: m(b[0]) and None, "objective <lambda> fails on the first images: RuntimeError: "),
    (nothing, "objective nothing returns None instead of a tensor with one number"),
    (
        lambda m, b: m(b[0]).detach().mean(),
        "returns a loss without a gradient; compute it from the outputs",
    ),
    (
        lambda m, b: m(b["image"]).mean(),
        "objective <lambda> fails before it calls the model: TypeError: ",
    ),
    (lambda m, b: m(b[0][:, :, :2]).mean(), "objective <lambda> fails on the first images: Runt"),
    (lambda m: m.mean(), "objective <lambda> fails before it calls the model: TypeError: "),
    (nn.MSELoss(), "objective MSELoss fails before it calls the model: "),
    (
        F.mse_loss,
        "; give a function of the model and a batch, such as "
        "lambda model, batch: F.mse_loss(model(batch[0]), batch[1])",
    ),
    (two_calls, "objective two_calls calls the model 2 times; it must call it once for a batch"),
    (0.5, "objective is 0.5; give a function of the model and a batch"),
]
BAD_SCORES: list[tuple[Any, str]] = [
    (lambda m, b: None, "score <lambda> returns None for 8 images instead of one number, or one"),
    (lambda m, b: "good", "score <lambda> returns 'good' for 8 images"),
    (lambda m, b: m(b[0]), "score <lambda> returns a float32 tensor of shape (8, 2) for 8 images"),
    (lambda m, b: {"iou": 1.0}, "score <lambda> returns dict for 8 images"),
    (lambda m, b: m(b[0]) / {}, "score <lambda> fails on the first images: TypeError: "),
    (nn.MSELoss(), "such as lambda model, batch: -F.mse_loss(model(batch[0]), batch[1])"),
    (lambda m, b: float("nan"), "the score of 4 images is not a number"),
    ("iou", "score is 'iou'; give a function of the model and a batch"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), BAD_OBJECTIVES)
def test_an_objective_that_cannot_be_used(bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        tas.train(network(), items(), SETTINGS, objective=bad, score=score)


@pytest.mark.parametrize(("bad", "message"), BAD_SCORES)
def test_a_score_that_is_no_number(bad: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        tas.train(network(), items(), SETTINGS, objective=objective, score=bad)


def test_models_and_tasks_that_do_not_fit() -> None:
    data = items()
    with pytest.raises(
        ValueError, match=r"the model is the class Linear; give a network: Linear\(\)"
    ):
        tas.train(nn.Linear, data)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"the model is str; give a torch.nn.Module"):
        tas.prune("resnet20", "digits")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="there is a score but no objective; give both"):
        tas.train(network(), data, score=score)
    with pytest.raises(ValueError, match="label_smoothing is for class labels"):
        tas.train(network(), data, tas.Training(label_smoothing=0.1))
    with pytest.raises(ValueError, match=r"Items has no classes; give an objective and a score"):
        Classification().check_output(torch.zeros(1, 2), "Items", 0)

    class Pair(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    with pytest.raises(
        ValueError, match="returns tuple for one image of Items, instead of one tensor"
    ):
        check_task(Pair(), data)
