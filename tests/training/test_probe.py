"""Estimates of time and memory from a few steps."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import transformable as tas
from transformable.costing.budget import Budget
from transformable.data import Dataset, Split, from_tensors
from transformable.presets import quick, quick_search
from transformable.searching import dry_run
from transformable.searching.search_step import SearchStep
from transformable.searching.sensitivity import Sensitivities, images_to_measure
from transformable.training import probe as probing
from transformable.training.devices import make_fabric
from transformable.training.dry_run import training_phases
from transformable.training.probe import Phase, probe


def data(count: int = 40) -> Dataset:
    images = torch.rand(count, 3, 8, 8), torch.arange(count) % 2
    return from_tensors(images, images, validation=0)


def test_larger_steps_follow_from_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, memory, tried = 0.0, 0, []
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    monkeypatch.setattr(probing, "peak_memory", lambda device: memory)

    def forget(device: torch.device) -> None:
        nonlocal memory
        memory = 100

    monkeypatch.setattr(probing, "_forget_peak", forget)

    def step(count: int) -> None:
        nonlocal clock, memory
        tried.append(count)
        clock += 0.2 * count
        memory = max(memory, 200 + 20 * count)

    def forward(count: int) -> None:
        nonlocal memory
        memory = max(memory, 200 + 6 * count)

    phases = [
        Phase(name="slow", step=step, images=1000, at_once=64),
        Phase(name="forward", step=forward, images=500, at_once=256),
    ]
    seen = probe(lambda: phases, data().train, torch.device("cpu"))
    # 4 images take 0.8 s, so 10 take two seconds: that is tried once
    assert tried == [4, 4, 10]
    assert seen.seconds["slow"] == pytest.approx(200.0)
    assert seen.step_seconds["slow"] == pytest.approx(12.8)
    assert seen.total == pytest.approx(200.0, abs=0.1)
    # each phase with as many images as it has: the forward one with 256 needs more
    assert seen.memory == 200 + 6 * 256


def test_the_start_of_an_epoch_is_counted_once_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    split = data().train
    shuffled = type(split).shuffled

    def slow(self: Split, size: int, **order: int) -> Iterator[tuple[Tensor, Tensor]]:
        nonlocal clock
        clock += 3.0  # to order all images
        for batch in shuffled(self, size, **order):
            clock += 0.01 * len(batch[1])
            yield batch

    monkeypatch.setattr(type(split), "shuffled", slow)
    phases = [
        Phase(name="step", step=lambda count: None, images=1000, at_once=64, epochs=5),
        Phase(name="in memory", step=lambda count: None, images=1000, at_once=64, decoded=False),
    ]
    seen = probe(lambda: phases, split, torch.device("cpu"))
    assert seen.seconds["step"] == pytest.approx(5 * 3.0 + 10.0, abs=0.01)
    assert seen.seconds["in memory"] == pytest.approx(0.0, abs=0.01)


def test_reading_for_the_first_time_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files come from the disk once, and from memory afterwards."""
    clock, cold = 0.0, True
    monkeypatch.setattr(time, "perf_counter", lambda: clock)
    split = data().train
    shuffled = type(split).shuffled

    def slow(self: Split, size: int, **order: int) -> Iterator[tuple[Tensor, Tensor]]:
        nonlocal clock, cold
        for batch in shuffled(self, size, **order):
            clock += (1.0 if cold else 0.01) * len(batch[1])
            cold = False
            yield batch

    monkeypatch.setattr(type(split), "shuffled", slow)
    phases = [Phase(name="step", step=lambda count: None, images=1000, at_once=64)]
    seen = probe(lambda: phases, split, torch.device("cpu"))
    assert seen.seconds["step"] == pytest.approx(10.0, abs=0.01)


def test_quick_steps_are_tried_as_they_are() -> None:
    tried: list[int] = []
    phases = [Phase(name="quick", step=tried.append, images=1000, at_once=64)]
    probe(lambda: phases, data().train, torch.device("cpu"))
    assert tried == [4, 4, 64, 64, 64, 64]


def test_the_memory_of_a_part_is_free_for_the_next() -> None:
    """The larger part comes first, and does not count in the estimate of the smaller one.

    What other tests have left may be freed meanwhile: that is less than a quarter of the larger.
    """

    def part(size: int) -> Callable[[], list[Phase]]:
        def make() -> list[Phase]:
            held = torch.ones(size * 2**18)  # so many MiB

            def step(count: int) -> float:
                return float(held[0]) + float(torch.ones(count * 2**18)[0])  # a MiB for each image

            return [Phase(name="part", step=step, images=100, at_once=32)]

        return make

    cpu, split = torch.device("cpu"), data().train
    small = probe(part(1), split, cpu).memory
    large = probe(part(300), split, cpu).memory
    small_again = probe(part(1), split, cpu).memory
    assert large - small == pytest.approx(299 * 2**20, abs=70 * 2**20)
    assert small_again == pytest.approx(small, abs=70 * 2**20)


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
    assert phases["measuring"].images == pytest.approx(forward * 0.75, rel=0.01)
    assert not phases["measuring"].decoded  # by the same images, which are read once
    assert phases["measuring"].at_once == count  # each network computes all of its images at once


def test_each_epoch_and_each_test_begins_to_read() -> None:
    model, dataset = tas.models.build("resnet20", num_classes=2), data()
    fabric, settings = make_fabric("cpu"), replace(quick("cifar10"), epochs=3, batch_size=10)
    train, tests = training_phases("training", model, dataset, settings, fabric)
    assert (train.epochs, tests.epochs) == (3, 1)
    held_out = replace(dataset, validation=dataset.test)
    train, tests = training_phases("training", model, held_out, settings, fabric)
    assert (train.epochs, tests.epochs) == (3, 4)


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
