"""Estimates of time and memory from a few steps."""

import time
from dataclasses import replace

import pytest
import torch

import transformable as tas
from transformable.costing.budget import Budget
from transformable.data import Dataset, from_tensors
from transformable.presets import quick_search
from transformable.searching import dry_run
from transformable.searching.search_step import SearchStep
from transformable.searching.sensitivity import Sensitivities, images_to_measure
from transformable.training import probe as probing
from transformable.training.devices import make_fabric
from transformable.training.probe import Phase, probe


def data(count: int = 40) -> Dataset:
    images = torch.rand(count, 3, 8, 8), torch.arange(count) % 2
    return from_tensors(images, images, validation=0)


def test_larger_steps_follow_from_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, memory, tried = 0.0, 0, []
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    monkeypatch.setattr(probing, "_peak_memory", lambda device: memory)

    def step(count: int) -> None:
        nonlocal clock, memory
        tried.append(count)
        clock += 0.05 * count
        memory = max(memory, 200 + 20 * count)

    phases = [
        Phase(name="slow", step=step, images=1000, at_once=64),
        Phase(name="forward", step=lambda count: None, images=500, at_once=64),
    ]
    seen = probe(phases, data().train, torch.device("cpu"))
    # 4 images take 0.2 s, so 10 take half a second: that is tried once
    assert tried == [4, 4, 10]
    assert seen.seconds["slow"] == pytest.approx(50.0)
    assert seen.step_seconds["slow"] == pytest.approx(3.2)
    assert seen.total == pytest.approx(50.0, abs=0.1)
    assert seen.memory == 200 + 20 * 64


def test_quick_steps_are_tried_as_they_are() -> None:
    tried: list[int] = []
    phases = [Phase(name="quick", step=tried.append, images=1000, at_once=64)]
    probe(phases, data().train, torch.device("cpu"))
    assert tried == [4, 4, 64, 64, 64, 64]


def test_what_a_search_does_before_its_first_step_is_counted() -> None:
    torch.manual_seed(0)
    model, dataset = tas.models.build("resnet20", num_classes=2), data()
    space = tas.Space.trace(model, (3, 8, 8))
    budget, fabric = Budget.of(0.5, space), make_fabric("cpu")
    settings = replace(quick_search("cifar10"), epochs=3, batch_size=10)
    phases = {
        phase.name: phase
        for phase in dry_run.search_phases(
            model, dataset, [budget], settings, space=space, fabric=fabric
        )
    }
    assert list(phases) == ["searching", "measuring", "sorting"]
    assert phases["searching"].images == 3 * 4 * 10
    assert phases["searching"].at_once == 10
    assert phases["sorting"].images == 40
    # by the real thing, whose networks are as large on average as the full one and the budget
    count = images_to_measure(space, 40)
    images = next(iter(dataset.train.ordered(count)))[0]
    net = tas.SuperNet(model, space)
    measured = Sensitivities(model, net.extract, space, images, fabric)
    measured.logits(budget, space.full)
    forward = measured.forward_images - count
    assert phases["measuring"].images == pytest.approx(forward * 0.75 / 2, rel=0.01)


def test_the_answers_of_the_teacher_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    model, dataset = tas.models.build("resnet20", num_classes=2), data()
    space = tas.Space.trace(model, (3, 8, 8))
    asked: list[bool] = []
    real = SearchStep

    def spied(*args: object, teacher: object, **more: object) -> object:
        asked.append(teacher is not None)
        return real(*args, teacher=teacher, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(dry_run, "SearchStep", spied)
    for settings in (quick_search("cifar10"), replace(quick_search("cifar10"), targets="labels")):
        dry_run.search_phases(
            model,
            dataset,
            [Budget.of(0.5, space)],
            replace(settings, batch_size=10),
            space=space,
            fabric=make_fabric("cpu"),
        )
    assert asked == [True, False]
