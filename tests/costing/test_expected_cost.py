import itertools
import math

import pytest
import torch
from torch import Tensor, nn

import transformable as tas
from support.networks import NETWORKS
from transformable.costing.expected_cost import Expectation
from transformable.settings import Residual


def random_probabilities(space: tas.Space, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(len(sizes), generator=generator, dtype=torch.float64).softmax(0)
        for name, sizes in space.candidates.items()
    }


def enumerated(space: tas.Space, probabilities: dict[str, Tensor]) -> tuple[float, float]:
    """The mean cost by going through every shape."""
    mean = [0.0, 0.0]
    names = [*space.widths, *space.depths]
    sizes = [*space.widths.values(), *space.depths.values()]
    for picks in itertools.product(*(range(len(s)) for s in sizes)):
        probability = 1.0
        chosen = {}
        for name, size, i in zip(names, sizes, picks, strict=True):
            probability *= float(probabilities[name][i])
            chosen[name] = size[i]
        widths = {name: chosen[name] for name in space.widths}
        shape = tas.Shape(widths, {name: chosen[name] for name in space.depths})
        mean[0] += probability * tas.macs(space, shape)
        mean[1] += probability * tas.params(space, shape)
    return mean[0], mean[1]


class Tiny(nn.Module):
    """Two stages of residual blocks, and a skip over both."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 1)
        self.one = nn.Sequential(*(Block() for _ in range(2)))
        self.two = nn.Sequential(*(Block() for _ in range(2)))
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        early = self.stem(x)
        x = self.two(self.one(early))
        return self.fc((x + early).mean((2, 3)))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.bn(self.conv(x)) + x)


@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_mean_over_all_shapes(residual: str, seed: int) -> None:
    space = tas.Space.trace(Tiny(), (3, 4, 4), ratios=(0.3, 0.5, 1.0, 1.5), residual=residual)  # type: ignore[arg-type]
    probabilities = random_probabilities(space, seed)
    expectation = Expectation(space)
    macs, params = enumerated(space, probabilities)
    assert float(expectation.macs(probabilities)) == pytest.approx(macs, rel=1e-9)
    assert float(expectation.params(probabilities)) == pytest.approx(params, rel=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("residual", ["pad", "project", "tied"])
def test_equals_the_mean_over_all_shapes_of_a_few_layers(name: str, residual: str) -> None:
    make, input_shape = NETWORKS[name]
    model = make()
    space = tas.Space.trace(model, input_shape, ratios=(0.3, 1.0), residual=residual)  # type: ignore[arg-type]
    probabilities = random_probabilities(space, 0)
    # all but some of the choices are made beforehand, so that there are not too many shapes
    free = list(probabilities)[:: max(1, len(probabilities) // 7)][:8]
    for i, layer in enumerate(probabilities):
        if layer not in free:
            sizes = len(probabilities[layer])
            probabilities[layer] = torch.eye(sizes, dtype=torch.float64)[i % sizes]
    sizes_of = space.candidates
    possible = {
        n: [
            (size, float(p)) for size, p in zip(sizes_of[n], probabilities[n], strict=True) if p > 0
        ]
        for n in sizes_of
    }
    mean = 0.0
    for picks in itertools.product(*possible.values()):
        chosen = {n: size for n, (size, _) in zip(possible, picks, strict=True)}
        widths = {n: chosen[n] for n in space.widths}
        shape = tas.Shape(widths, {n: chosen[n] for n in space.depths})
        mean += math.prod(p for _, p in picks) * tas.macs(space, shape)
    assert float(Expectation(space).macs(probabilities)) == pytest.approx(mean, rel=1e-9)


@pytest.mark.parametrize("residual", ["pad", "project"])
@pytest.mark.parametrize("name", ["resnet20", "resnet110", "resnet164", "mobilenet_v2"])
def test_the_mean_of_random_shapes(name: str, residual: Residual) -> None:
    """As many shapes as go into seconds; benchmarks/expected_cost.py takes 20,000."""
    space = tas.Space.trace(tas.models.build(name), (3, 32, 32), residual=residual)
    probabilities = random_probabilities(space, 0)
    generator = torch.Generator().manual_seed(0)
    draws = {
        name: torch.multinomial(p, 400, replacement=True, generator=generator).tolist()
        for name, p in probabilities.items()
    }
    for measure, expected in (
        (tas.macs, Expectation(space).macs(probabilities)),
        (tas.params, Expectation(space).params(probabilities)),
    ):
        costs = torch.tensor(
            [
                measure(space, space.shape_at({n: at[i] for n, at in draws.items()}))
                for i in range(400)
            ],
            dtype=torch.float64,
        )
        error = costs.std() / math.sqrt(len(costs))
        assert abs(costs.mean() - expected) < 3 * error
