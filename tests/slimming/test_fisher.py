"""The Fisher importance against gates that are differentiated one image at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import CLASSIFIERS, NETWORKS, randomise
from transformable.slimming.fisher import fisher_importance
from transformable.slimming.sort_channels import sort_channels
from transformable.tracing.channel_groups import ChannelGroups


class TwoBlocks(nn.Module):
    """A stream that the stem and two blocks write, and an inner layer without a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.inner = nn.Conv2d(4, 5, 3, padding=1)
        self.outer, self.bn2 = nn.Conv2d(5, 4, 1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn(self.stem(x)).relu()
        x = (x + self.bn2(self.outer(self.inner(x).relu()))).relu()
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]

    def gated(self, x: Tensor, stream: Tensor, inner: Tensor) -> Tensor:
        """The same with a factor for each channel."""
        x = (self.bn(self.stem(x)) * stream[:, None, None]).relu()
        y = self.outer((self.inner(x) * inner[:, None, None]).relu())
        x = (x + self.bn2(y) * stream[:, None, None]).relu()
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def test_it_is_the_mean_square_of_the_slopes_of_gates() -> None:
    torch.manual_seed(0)
    net = TwoBlocks()
    randomise(net).eval()
    x = torch.randn(6, 3, 5, 5)
    with torch.no_grad():
        logits = net(x) / 2.0
    draws = torch.Generator().manual_seed(0)
    answers = torch.multinomial(logits.softmax(1), 1, generator=draws)[:, 0]
    gates = [torch.ones(n, requires_grad=True) for n in (4, 5)]
    expected = [torch.zeros(n) for n in (4, 5)]
    for image, answer in zip(x, answers, strict=True):
        loss = F.cross_entropy(net.gated(image[None], *gates) / 2.0, answer[None])
        for total, slope in zip(expected, torch.autograd.grad(loss, gates), strict=True):
            total += slope.square() / len(x)
    found = fisher_importance(net, tas.Space.trace(net, (3, 5, 5)), [x], temperature=2.0)
    assert set(found) == {"stem", "inner"}
    for name, values in zip(("stem", "inner"), expected, strict=True):
        assert torch.allclose(found[name], values, rtol=1e-4), name


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_it_sorts_any_network_without_changing_what_it_computes(name: str) -> None:
    make, input_shape = NETWORKS[name]
    torch.manual_seed(0)
    net = randomise(make()).eval()
    space = tas.Space.trace(net, input_shape)
    x = torch.randn(4, *input_shape)
    scores = fisher_importance(net, space, [x[:2], x[2:]])
    assert set(scores) == ChannelGroups(space).movable
    assert all(values.isfinite().all() for values in scores.values())
    ordered = sort_channels(net, space, scores)
    with torch.no_grad():
        assert torch.allclose(ordered(x), net(x), atol=1e-4)
    after = fisher_importance(ordered, space, [x[:2], x[2:]])
    for group, values in scores.items():
        assert torch.allclose(after[group], values.sort(descending=True).values, rtol=1e-2), group


def test_outputs_that_are_not_finite_are_blamed_on_the_training() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU(), nn.Conv2d(4, 2, 1), nn.Flatten())
    space = tas.Space.trace(network, (3, 1, 1))
    for weight in network.parameters():
        nn.init.constant_(weight, 1e38)
    with pytest.raises(
        ValueError, match=r"\(the teacher\) are not finite; train it with a lower lr \(train.lr\)$"
    ):
        fisher_importance(network, space, [torch.ones(2, 3, 1, 1)])


def test_frozen_parameters_are_measured_all_the_same() -> None:
    torch.manual_seed(0)
    net = TwoBlocks()
    randomise(net).eval()
    space = tas.Space.trace(net, (3, 5, 5))
    batches = [torch.randn(6, 3, 5, 5)]
    expected = fisher_importance(net, space, batches)
    for frozen in (net.stem, net):
        frozen.requires_grad_(False)
        found = fisher_importance(net, space, batches)
        assert {name: row.tolist() for name, row in found.items()} == {
            name: row.tolist() for name, row in expected.items()
        }
    assert not any(parameter.requires_grad for parameter in net.parameters())
