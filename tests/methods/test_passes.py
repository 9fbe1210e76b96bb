"""What a method says that it has spent is what went through its networks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

from support.method_inputs import context, network
from transformable.costing.budget import Budget
from transformable.methods import Context, amc, load_method
from transformable.training import train

IMAGES, HELD_OUT, BATCH = 36, 12, 2


@contextmanager
def counted() -> Iterator[dict[str, int]]:
    """Inside, the images that go into networks, with and without a backward pass."""
    images, depth = {"trained": 0, "asked": 0}, 0

    def enter(_: nn.Module, inputs: Any) -> None:
        nonlocal depth
        given = inputs[0] if inputs else None
        if depth == 0 and type(given) is Tensor and given.shape[1:] == (3, 16, 16):
            images["trained" if torch.is_grad_enabled() else "asked"] += len(given)
        depth += 1

    def leave(*_: Any) -> None:
        nonlocal depth
        depth -= 1

    hooks = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield images
    finally:
        for hook in hooks:
            hook.remove()


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held-out images that only watch a training are not counted."""
    scores = {"accuracy": 0.5, "top5": 1.0, "loss": 1.0, "n": 1}
    monkeypatch.setattr(train, "evaluate", lambda *_, **__: dict(scores))
    monkeypatch.setattr(amc, "EPISODES", 4)
    monkeypatch.setattr(amc, "WARMUP", 2)


def few(epochs: int = 3, **changes: Any) -> Context:
    made = context(16, epochs=epochs)
    assert (len(made.dataset.train), len(made.dataset.validation)) == (IMAGES, HELD_OUT)
    return replace(made, searching=replace(made.searching, batch_size=BATCH, **changes))


@pytest.mark.parametrize("name", ["uniform", "pfec", "fpgm", "torch-pruning"])
def test_methods_that_look_at_no_images(name: str) -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method(name)(model, space, Budget.of(0.5, space), few())
    assert images["trained"] + images["asked"] <= 8  # zeros, for the tracing of Torch-Pruning
    assert found.passes == 0


@pytest.mark.parametrize("name", ["slimming", "sfp", "taylor", "torch-pruning-sparse"])
def test_methods_that_train_one_network(name: str) -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method(name)(model, space, Budget.of(0.5, space), few())
    assert images["trained"] == pytest.approx(3 * IMAGES, abs=8)
    assert found.passes == 3


@pytest.mark.parametrize("name", ["cp", "amc"])
def test_methods_that_only_ask(name: str) -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method(name)(model, space, Budget.of(0.5, space), few())
    assert images["trained"] == 0
    assert images["asked"] > 0
    assert found.passes == pytest.approx(images["asked"] / IMAGES / 3)


def test_random_shapes_share_the_passes() -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method("random")(model, space, Budget.of(0.5, space), few(epochs=4))
    shapes = len(found.notes["held_out_scores"])
    assert shapes == 8
    assert found.passes == pytest.approx(4)
    # each is tested on a third as many images as there are, which is a ninth of a pass
    expected = (4 - 8 / 9) * IMAGES
    assert images["trained"] == pytest.approx(expected, abs=8 * BATCH)


def test_random_shapes_are_not_trained_in_a_search_of_no_epochs() -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method("random")(model, space, Budget.of(0.5, space), few(epochs=0))
    assert images["trained"] == 0
    assert found.passes == pytest.approx(8 / 9)


@pytest.mark.parametrize("epochs", [30, 60])
def test_a_slimmable_network_of_four_learns_for_a_quarter(epochs: int) -> None:
    model, space = network("vgg")
    with counted() as images:
        found = load_method("autoslim")(model, space, Budget.of(0.5, space), few(epochs))
    asked, trained = images["asked"] / IMAGES / 3, images["trained"] / IMAGES
    assert asked <= epochs / 2 + 1  # the last network is judged to its end
    # a part of the images leaves out one of each class at least
    assert asked + trained == pytest.approx(found.passes, rel=4 / IMAGES)
    assert 0.8 * epochs <= found.passes <= epochs + 1


def test_gates_are_also_set_in_the_training_of_the_small_network() -> None:
    model, space = network("vgg")
    after = replace(few(), epochs_after=5)
    with counted() as images:
        found = load_method("lccl")(model, space, Budget.of(0.5, space), after)
    # all images once for the norms and once more for the thresholds: at the start, then each epoch
    each = 2 * IMAGES
    at_the_end = images["asked"] - 4 * each
    assert at_the_end > 0
    asked = (1 + 3 + 5) * each + 2 * at_the_end
    assert found.passes == pytest.approx(3 + asked / IMAGES / 3)


def test_the_passes_of_a_search() -> None:
    model, space = network("resnet20", 16)
    budget = Budget.of(0.5, space)
    assert load_method("tas")(model, space, budget, few()).passes == 3
    with counted() as images:
        answers = few(start="sensitivity", judged=1)
        found = load_method("tas")(model, space, budget, answers)
    # once to sort the channels, then the search
    assert images["trained"] == (1 + 3) * IMAGES
    assert images["asked"] > 100 * IMAGES
    spent = images["trained"] + images["asked"] / 3
    # to trace and to rewrite a network takes four passes of two images of noise
    assert found.passes == pytest.approx((spent - 8 / 3) / IMAGES)


def test_depths_and_then_widths_count_the_search() -> None:
    model, space = network("resnet20", 16)
    budget = Budget.of(0.5, space, tolerance=0.005)
    found = load_method("tas-depth")(model, space, budget, few())
    assert "before_widths" in found.notes
    assert found.passes == 3
