"""The Fisher importance against gates that are differentiated one image at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from support.networks import NETWORKS, randomise
from transformable.slimming.fisher import fisher_importance
from transformable.tracing.channel_groups import ChannelGroups


class TwoBlocks(nn.Module):
    """A stream that the stem and two blocks write, and an inner layer without a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.inner = nn.Conv2d(4, 5, 3, padding=1)
        self.outer, self.bn2 = nn.Conv2d(5, 4, 1), nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, 3)
        self.gates = {
            name: torch.ones(n, requires_grad=True) for name, n in (("stem", 4), ("inner", 5))
        }

    def forward(self, x: Tensor) -> Tensor:
        stream, inner = (self.gates[name][:, None, None] for name in ("stem", "inner"))
        x = (self.bn(self.stem(x)) * stream).relu()
        x = (x + self.bn2(self.outer((self.inner(x) * inner).relu())) * stream).relu()
        return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]


def test_it_is_the_mean_square_of_the_slopes_of_gates() -> None:
    torch.manual_seed(0)
    net = randomise(TwoBlocks()).eval()
    x = torch.randn(6, 3, 5, 5)
    with torch.no_grad():
        logits = net(x) / 2.0
    draws = torch.Generator().manual_seed(0)
    answers = torch.multinomial(logits.softmax(1), 1, generator=draws)[:, 0]
    expected = {name: torch.zeros_like(gate) for name, gate in net.gates.items()}
    for image, answer in zip(x, answers, strict=True):
        loss = F.cross_entropy(net(image[None]) / 2.0, answer[None])
        slopes = torch.autograd.grad(loss, list(net.gates.values()))
        for name, slope in zip(net.gates, slopes, strict=True):
            expected[name] += slope.square() / len(x)

    plain = TwoBlocks()
    plain.load_state_dict(net.state_dict())
    space = tas.Space.trace(plain, (3, 5, 5))
    found = fisher_importance(plain, space, [x], temperature=2.0)
    assert set(found) == {"stem", "inner"}
    for name, values in expected.items():
        assert torch.allclose(found[name], values, rtol=1e-4), name


@pytest.mark.parametrize("name", list(NETWORKS))
def test_it_sorts_any_network_without_changing_what_it_computes(name: str) -> None:
    make, input_shape = NETWORKS[name]
    torch.manual_seed(0)
    net = randomise(make()).eval()
    space = tas.Space.trace(net, input_shape)
    x = torch.randn(4, *input_shape)
    scores = fisher_importance(net, space, [x[:2], x[2:]])
    assert set(scores) == ChannelGroups(space).movable
    assert all(values.isfinite().all() for values in scores.values())
    from transformable.slimming.sort_channels import sort_channels

    ordered = sort_channels(net, space, scores)
    with torch.no_grad():
        assert torch.allclose(ordered(x), net(x), atol=1e-4)
    after = fisher_importance(ordered, space, [x[:2], x[2:]])
    for group, values in scores.items():
        assert torch.allclose(after[group], values.sort(descending=True).values, rtol=1e-2), group
