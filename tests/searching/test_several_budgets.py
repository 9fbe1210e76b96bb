"""One search for several budgets."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import transformable as tas
from support.method_inputs import images, network
from support.searches import alternating_search
from transformable.runs.progress import Progress
from transformable.runs.run_folder import Run
from transformable.searching import sensitivity
from transformable.searching.search import Searched, search_all
from transformable.settings import Searching
from transformable.training.interrupts import Interrupted
from transformable.training.session import Session

EVEN = alternating_search(
    epochs=2, batch_size=6, lr=0.02, arch_lr=0.2, pull="multiplier", sharpen=5.0
)
STEPS = 6  # 18 images in each half


def run_search(
    settings: Searching = EVEN, folder: Path | None = None, stop_at: int = 0
) -> list[Searched]:
    class Stopping(Progress):
        def advance(self, done: int) -> None:
            if done == stop_at:
                os.kill(os.getpid(), signal.SIGTERM)

    net, _ = network("resnet20")
    space = tas.Space.trace(net, (3, 8, 8), ratios=(0.3, 0.6, 1.0))
    budgets = [tas.Budget.of(share, space) for share in (0.4, 0.7)]
    if folder is None:
        return search_all(net, images(), budgets, settings, space=space)
    with Run.open(folder, {}) as run:
        session = Session(run=run, progress=Stopping())
        return search_all(net, images(), budgets, settings, session, space=space)


def test_the_target_falls_from_one_to_the_next() -> None:
    large, small = run_search()
    assert [round(100 * one.budget.value / large.budget.value) for one in (large, small)] == [
        100,
        57,
    ]
    for one in (large, small):
        assert one.budget.low <= one.derived.cost <= one.budget.high
        assert sum(p.numel() for p in one.network.parameters()) == tas.params(
            tas.Space.trace(network("resnet20")[0], (3, 8, 8)), one.shape
        )
    # each has half of the steps, and the weights of its own moment
    assert (large.epochs, small.epochs) == (1.0, 2.0)
    stems = [one.network.get_parameter("stem.0.weight") for one in (large, small)]
    count = min(map(len, stems))
    assert not torch.equal(stems[0][:count], stems[1][:count])


@pytest.mark.parametrize("stop_at", [1, 3, 4, STEPS])
def test_interrupted_it_continues_to_the_same_networks(tmp_path: Path, stop_at: int) -> None:
    whole = run_search(folder=tmp_path / "whole")
    with pytest.raises(Interrupted):
        run_search(folder=tmp_path / "run", stop_at=stop_at)
    # and a search that is finished is only read again
    for _ in range(2):
        for one, other in zip(whole, run_search(folder=tmp_path / "run"), strict=True):
            assert one.derived == other.derived
            assert one.passes == other.passes
            expected = one.network.state_dict()
            for name, value in other.network.state_dict().items():
                assert torch.equal(value, expected[name]), name
    for name in ("steps.csv", "distributions.jsonl", "shape.json"):
        assert (tmp_path / "run" / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.parametrize("stop_at", [2, 70])
def test_stopped_while_sizes_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    settings = alternating_search(epochs=1, batch_size=12, align="pad", start="sensitivity")
    whole = run_search(settings, tmp_path / "whole")
    measured, divergence = 0, sensitivity.divergence

    def signalled(*arguments: Any) -> Tensor:
        nonlocal measured
        measured += 1
        if measured == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return divergence(*arguments)

    monkeypatch.setattr(sensitivity, "divergence", signalled)
    with pytest.raises(Interrupted):
        run_search(settings, tmp_path / "run")
    assert measured == stop_at
    for one, other in zip(whole, run_search(settings, tmp_path / "run"), strict=True):
        assert one.derived == other.derived
        assert one.passes == other.passes
        for name, value in one.network.state_dict().items():
            assert torch.equal(value, other.network.state_dict()[name]), name


def test_from_answers_each_budget_is_measured_from_the_one_before() -> None:
    settings = alternating_search(epochs=0, batch_size=12, align="pad", start="sensitivity")
    large, small = run_search(settings)
    assert large.epochs == small.epochs == 0
    assert large.budget.low <= large.derived.cost <= large.budget.high
    assert small.budget.low <= small.derived.cost <= small.budget.high
    # all images forward and backward once to sort them, then many forward passes
    assert 1.0 < large.passes < small.passes


def test_sizes_without_the_full_ones() -> None:
    net, _ = network("resnet20")
    net.train()
    space = tas.Space.trace(net, (3, 8, 8), ratios=(0.3, 0.6))
    settings = alternating_search(
        epochs=0, batch_size=12, align="pad", start="sensitivity", sort=False
    )
    found = tas.search(net, images(), 0.2, settings, space=space)
    assert found.budget.low <= found.derived.cost <= found.budget.high
    assert net.training  # the network is left as it was
