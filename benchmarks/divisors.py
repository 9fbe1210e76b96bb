"""What multiples of channels are worth at equal MACs: random shapes of half of the MACs, timed.

    python benchmarks/divisors.py [--networks resnet20 vgg] [--runtime torch] [--shapes 8]

For each divisor (1: widths as they come; auto: what is measured to pay here) shapes of half of the
MACs are derived from random probabilities, and timed in turn with the unpruned network.
"""

import argparse
import statistics

import torch
from latency_model import SIZES, vgg

import transformable as tas
from transformable.costing.budget import Budget
from transformable.searching.derive import derive
from transformable.timing.divisors import paying_divisor
from transformable.timing.runtimes import whole_call
from transformable.timing.stopwatch import time_calls, using_threads
from transformable.timing.table_file import conditions_here


def measure(name: str, runtime: str, shapes: int) -> None:
    model = (vgg() if name == "vgg" else tas.models.build(name)).eval()
    size = SIZES[name]
    cpu = torch.device("cpu")
    conditions = conditions_here(runtime, 1, 1, cpu)  # type: ignore[arg-type]
    space = tas.Space.trace(model, (3, size, size))
    auto = paying_divisor(model, space, conditions, cpu)
    x = torch.rand(1, 3, size, size)
    cells = []
    with using_threads(1):
        full = whole_call(conditions.runtime, model, x)
        for divisor in (1, 8, 16):
            space = tas.Space.trace(model, (3, size, size), divisor=divisor, search="width")
            budget = Budget.of(0.5, space)
            found = []
            for seed in range(shapes):
                generator = torch.Generator().manual_seed(seed)
                rows = {
                    layer: torch.randn(len(sizes), generator=generator).softmax(0)
                    for layer, sizes in space.candidates.items()
                }
                shape = derive(rows, space, budget).shape
                small = whole_call(conditions.runtime, tas.slim(model, space, shape), x)
                timed = time_calls({"small": small, "full": full})
                found.append(timed["small"].median_ms / timed["full"].median_ms)
            spread = statistics.stdev(found)
            cells.append(f"{statistics.mean(found):.2f} ± {spread:.2f}")
    print(f"| {name} | {runtime} | {' | '.join(cells)} | {auto.divisor} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=["resnet20", "vgg"])
    parser.add_argument("--runtime", default="torch", choices=["torch", "onnxruntime"])
    parser.add_argument("--shapes", type=int, default=8)
    given = parser.parse_args()
    print("| network | runtime | divisor 1 | 8 | 16 | auto is |\n" + "| --- " * 6 + "|")
    for network in given.networks:
        measure(network, given.runtime, given.shapes)
