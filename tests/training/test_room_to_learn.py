"""Larger steps and more of the labels after a teacher that gets training images wrong."""

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from transformable.data import Dataset, from_tensors
from transformable.searching.search import with_trained_network
from transformable.settings import Distilling, Searching
from transformable.training.devices import make_fabric
from transformable.training.distill import with_teacher
from transformable.training.room_to_learn import looks_trained, room_to_learn
from transformable.training.step_size import filter_size

FABRIC = make_fabric("cpu")


class Teacher(nn.Module):
    """Says what the first pixel is, the class of all but some images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4)
        nn.init.constant_(self.conv.weight, 0.7)  # filters of a size that decides the steps

    def forward(self, x: Tensor) -> Tensor:
        classes = torch.arange(4, device=x.device)
        logits: Tensor = -(x[:, 0, 0, :1] - classes).square() + 0 * self.bn(self.conv(x)).mean()
        return logits


class AlwaysZero(nn.Module):
    """Names the class 0 for every image."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.eye(4)[:1].repeat(len(x), 1)


def data(wrong: int, count: int = 200) -> Dataset:
    labels = torch.arange(count) % 4
    images = labels.float().view(-1, 1, 1, 1).repeat(1, 1, 2, 2)
    images[:wrong] = (images[:wrong] + 1) % 4
    return from_tensors((images, labels), (images, labels), validation=0)


@pytest.mark.parametrize(
    ("wrong", "room"), [(0, 0.0), (2, 0.0), (4, 0.25), (12, 0.5), (24, 1.0), (200, 1.0)]
)
def test_room_is_the_share_of_wrong_images(wrong: int, room: float) -> None:
    assert room_to_learn(Teacher(), data(wrong), FABRIC) == room


@pytest.mark.parametrize(
    ("wrong", "times", "weight"), [(0, 1.0, 0.9), (12, 2.0, 0.7), (24, 3.0, 0.5)]
)
def test_what_follows_for_a_student_and_for_a_search(
    wrong: int, times: float, weight: float
) -> None:
    teacher, images = Teacher(), data(wrong)
    size = filter_size(teacher)
    assert size is not None
    student = with_teacher(Distilling(), teacher, images, FABRIC)
    assert student.lr == pytest.approx(times * 0.0235 * size)
    assert student.kd_lambda == pytest.approx(weight)
    search = with_trained_network(Searching(), teacher, images, FABRIC)
    assert search.lr == student.lr  # one schedule


def test_a_network_without_norms_has_no_larger_steps() -> None:
    teacher, images = Teacher(), data(24)
    teacher.bn = nn.Identity()  # type: ignore[assignment]
    assert room_to_learn(teacher, images, FABRIC) == 1
    assert with_teacher(Distilling(), teacher, images, FABRIC).lr == 0.0015


def test_a_network_looks_trained_that_is_far_from_naming_one_class() -> None:
    assert looks_trained(Teacher(), data(60), FABRIC)  # 70 % right, and 25 % of each class
    assert not looks_trained(Teacher(), data(80), FABRIC)  # 60 %
    labels = torch.arange(200) % 4 * (torch.arange(200) >= 150)
    images = torch.rand(200, 1, 2, 2), labels
    named = from_tensors(images, images, validation=0)
    # 75 % + a fourth of the rest are right because one class is frequent
    assert not looks_trained(AlwaysZero(), named, FABRIC)


def test_what_is_given_stays() -> None:
    teacher, images = Teacher(), data(24)
    settings = Distilling(lr=0.1, kd_lambda=0.8)
    assert with_teacher(settings, teacher, images, FABRIC) is settings
    assert with_teacher(Distilling(kd_lambda=0.8), teacher, images, FABRIC).kd_lambda == 0.8
    assert with_teacher(Distilling(lr=0.1), teacher, images, FABRIC).lr == 0.1
    # the paper's weight is that of the labels
    assert with_teacher(Distilling(kd="paper"), teacher, images, FABRIC).kd_lambda is None
    assert with_trained_network(Searching(lr=0.1), teacher, images, FABRIC).lr == 0.1


def test_a_task_without_classes_has_none() -> None:
    images = torch.rand(8, 1, 2, 2)
    own = tas.data.from_tensors((images, torch.arange(8) % 4), (images, torch.arange(8) % 4))
    task = tas.data.from_datasets(
        [(x, x.mean()) for x in images],
        objective=lambda model, batch: model(batch[0]).mean(),
        score=lambda model, batch: model(batch[0]).mean(),
    )
    assert room_to_learn(Teacher(), own, FABRIC) > 0
    assert room_to_learn(Teacher(), task, FABRIC) == 0
