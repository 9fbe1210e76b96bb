"""The band of a job that may widen, and the epochs that a total of passes leaves."""

from dataclasses import replace

import pytest

from support.method_inputs import images, network
from support.searches import alternating_search
from transformable.costing.budget import BandError, Budget
from transformable.methods import MethodResult, load_method
from transformable.networks.blueprint import Blueprint
from transformable.pruning.job import PruningJob
from transformable.pruning.steps import train_student
from transformable.settings import Distilling, Training
from transformable.training.session import Session


@pytest.fixture
def job() -> PruningJob:
    model, space = network("stream")
    return PruningJob(
        model=model,
        trained=True,
        dataset=images(),
        space=space,
        budget=Budget(metric="macs", value=1000.0, low=995, high=1005),
        method=load_method("uniform"),
        method_name="uniform",
        training=Training(),
        searching=alternating_search(epochs=5),
        distilling=Distilling(epochs=30),
        blueprint=Blueprint(model=None, num_classes=4, input_shape=(3, 8, 8), residual="pad"),
        wider=(0.01, 0.05),
    )


def test_the_narrowest_band_in_which_something_is_found(job: PruningJob) -> None:
    tried = []

    def find(cost: int, budget: Budget) -> int:
        tried.append((budget.low, budget.high))
        if not budget.holds(cost):
            raise BandError(f"{cost} is outside of {budget.low} to {budget.high}")
        return cost

    assert job.in_band(lambda budget: find(1002, budget)) == 1002
    assert tried == [(995, 1005)]
    tried.clear()
    assert job.in_band(lambda budget: find(960, budget)) == 960
    assert tried == [(995, 1005), (990, 1010), (950, 1050)]
    with pytest.raises(BandError, match="1051 is outside of 950 to 1050"):
        job.in_band(lambda budget: find(1051, budget))
    # tas prune has one band
    tried.clear()
    with pytest.raises(BandError, match="990 is outside of 995 to 1005"):
        replace(job, wider=()).in_band(lambda budget: find(990, budget))
    assert len(tried) == 1


def test_another_error_is_not_tried_again(job: PruningJob) -> None:
    calls = []

    def find(budget: Budget) -> None:
        calls.append(budget)
        raise ValueError("no batch norms")

    with pytest.raises(ValueError, match="no batch norms"):
        job.in_band(find)
    assert len(calls) == 1


def test_the_small_network_is_trained_with_what_is_left(job: PruningJob) -> None:
    assert job.student_epochs(7.0) == 30
    job = replace(job, passes=35.0)
    assert [job.student_epochs(spent) for spent in (0, 5, 5.4, 5.6, 50)] == [35, 30, 30, 29, 1]
    # a network that is inherited goes on in the middle of an epoch, so that the sum is exact
    assert [job.student_epochs(spent, spent) for spent in (5, 5.4, 5.6)] == [30, 30, 30]


@pytest.mark.parametrize(("passes", "trained"), [(None, 2.0), (6.0, 2.6), (4.0, 0.6), (2.0, 0.6)])
def test_what_was_spent_without_learning(
    job: PruningJob, passes: float | None, trained: float
) -> None:
    """It takes epochs from the small network only where all passes are limited."""
    distilling = Distilling(epochs=2, batch_size=8, transfer="init")
    found = MethodResult(
        shape=job.space.full, model=job.model, cost=0, passes=3.4, epochs_before=1.0
    )
    job = replace(job, distilling=distilling, passes=passes)
    _, scores = train_student(job, found, Session())
    assert scores["passes"] == {"search": 3.4, "student": pytest.approx(trained)}


def test_networks_are_timed_in_batches_that_fit(job: PruningJob) -> None:
    assert job.large_batch == 64
    parts = replace(job.distilling, batch_size=50, accumulate=4)
    assert replace(job, distilling=parts).large_batch == 13
    few = replace(job.distilling, batch_size=512, accumulate=2)
    assert replace(job, distilling=few).large_batch == 64
