"""Steps in which weights and sizes learn from one batch, with the answers of a teacher."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.searches import alternating_search
from transformable.costing.budget import Budget
from transformable.searching.search import images_of, make_supernet
from transformable.searching.search_step import SearchStep
from transformable.settings import Searching
from transformable.task import kd_loss
from transformable.training.devices import make_fabric

SETTINGS = alternating_search(
    epochs=1,
    lr=0.1,
    warmup_epochs=0.0,
    momentum=0.0,
    weight_decay=0.0,
    lambda_cost=0.0,
    select=8,
    arch_weight_decay=0.0,
)


def search_step(settings: Searching, teacher: nn.Module | None = None) -> SearchStep:
    torch.manual_seed(0)
    model = tas.models.build("resnet20")
    space = tas.Space.trace(model, (3, 8, 8))
    net = make_supernet(model, space, settings, seed=0).train()
    fabric, budget = make_fabric("cpu"), Budget.of(0.5, space)
    return SearchStep(net, budget, settings, 10, fabric, teacher=teacher)


def batch() -> tuple[Tensor, Tensor]:
    return torch.randn(10, 3, 8, 8), torch.arange(10)


def loss_by_hand(work: SearchStep, x: Tensor, y: Tensor, teacher: nn.Module | None) -> Tensor:
    """Of the draw of step 0; the net of `work` must not have learned yet."""
    net = work.net
    net.tau = work.settings.tau_start
    work._seed("weights", 0, 0)
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    return loss if teacher is None else kd_loss(loss, logits, teacher(x).detach(), kd="logits")


@pytest.mark.parametrize("with_teacher", [False, True])
def test_both_descend_the_loss_of_one_batch(with_teacher: bool) -> None:
    torch.manual_seed(1)
    teacher = tas.models.build("resnet20").eval() if with_teacher else None
    x, y = batch()
    by_hand = search_step(SETTINGS, teacher)
    weights, logits = by_hand.net.weight_parameters(), by_hand.net.architecture_parameters()
    loss = loss_by_hand(by_hand, x, y, teacher)
    slopes = torch.autograd.grad(loss, [*weights, *logits], materialize_grads=True)

    work = search_step(SETTINGS, teacher)
    before = [p.detach().clone() for p in work.net.weight_parameters()]
    first_logits = copy.deepcopy(work.net.architecture_parameters())
    row = work(0, 0, (x, y))
    assert row["weight_loss"] == row["architecture_loss"] == pytest.approx(float(loss.detach()))
    for old, new, slope in zip(before, work.net.weight_parameters(), slopes, strict=False):
        assert torch.allclose(new, old - 0.1 * slope, atol=1e-6)
    # the first step of Adam is by the sign
    for old, new, slope in zip(
        first_logits, work.net.architecture_parameters(), slopes[len(weights) :], strict=True
    ):
        clear = slope.abs() > 1e-5
        assert clear.any()
        assert torch.equal((new - old)[clear].sign(), -slope[clear].sign())


def test_held_sizes_do_not_learn() -> None:
    work = search_step(alternating_search(epochs=1, hold_epochs=0.1))
    before = work.net.alpha.detach().clone()
    row = work(0, 0, batch())
    assert torch.equal(work.net.alpha, before)
    assert row["architecture_loss"] is None
    work(1, 0, batch())
    assert not torch.equal(work.net.alpha, before)


def test_probabilities_sharpen_in_each_part() -> None:
    work = search_step(alternating_search(epochs=1, sharpen=100.0, tau_start=2.0, tau_end=1.0))
    rows = {}
    for budget, part in ((0.7, range(5)), (0.5, range(5, 10))):
        work.aim_at(Budget.of(budget, work.net.space), part)
        for step in part:
            rows[step] = work(step, 0, batch())["tau"], work.net.sharpness
    expected = [(2.0, 1.0), (1.75, 10**0.5), (1.5, 10.0), (1.25, 10**1.5), (1.0, 100.0)] * 2
    assert [value for row in rows.values() for value in row] == pytest.approx(
        [value for row in expected for value in row]
    )
    logits = work.net.alpha[0].detach().double()
    probabilities = next(iter(work.net.probabilities().values())).detach()
    assert torch.allclose(probabilities, (100 * logits).softmax(0))


def test_shared_images_are_all_of_them() -> None:
    data = tas.data.load("digits", validation=0.05)
    [shared] = images_of(data.train, alternating_search(images="shared"), seed=0)
    assert len(shared) == len(data.train)
    halves = images_of(data.train, alternating_search(), seed=0)
    assert sum(map(len, halves)) == len(data.train)
