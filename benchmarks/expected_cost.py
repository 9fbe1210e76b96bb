"""The expected cost against the mean over random shapes, in standard errors.

Probabilities are random, and shapes are drawn by them; what each costs is what tas.macs and
tas.params say. The exact expectation should be within three standard errors of the mean.

    python benchmarks/expected_cost.py --shapes 20000
"""

import argparse
import json
import math
import time

import torch

import transformable as tas
from transformable.costing.expected_cost import Expectation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = ["resnet20", "resnet110", "resnet164", "mobilenet_v2"]
    parser.add_argument("--models", nargs="+", default=names)
    parser.add_argument("--residuals", nargs="+", default=["pad", "project", "tied"])
    parser.add_argument("--shapes", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for name in args.models:
        for residual in args.residuals:
            space = tas.Space.trace(tas.models.build(name), (3, 32, 32), residual=residual)
            print(json.dumps({"model": name, "residual": residual, **compare(space, args)}))


def compare(space: tas.Space, args: argparse.Namespace) -> dict[str, float]:
    random = torch.Generator().manual_seed(args.seed)
    probabilities = {
        name: torch.randn(len(sizes), generator=random, dtype=torch.float64).softmax(0)
        for name, sizes in space.candidates.items()
    }
    draws = {
        name: torch.multinomial(p, args.shapes, replacement=True, generator=random).tolist()
        for name, p in probabilities.items()
    }
    start = time.perf_counter()
    expected = float(Expectation(space).macs(probabilities))
    seconds = time.perf_counter() - start
    shapes = (space.shape_at({n: at[i] for n, at in draws.items()}) for i in range(args.shapes))
    costs = torch.tensor([tas.macs(space, shape) for shape in shapes], dtype=torch.float64)
    error = float(costs.std()) / math.sqrt(args.shapes)
    return {
        "expected_macs": round(expected),
        "mean_macs": round(float(costs.mean())),
        "standard_errors": round(abs(float(costs.mean()) - expected) / error, 2),
        "seconds_for_the_expectation": round(seconds, 4),
    }


if __name__ == "__main__":
    main()
