"""How long a step takes on each of n devices, and what its exchange adds: the table of
docs/scaling.md.

The step times are measured: processor seconds of one thread, so that other work on the machine
does not count, median of the rounds. The exchange is computed from the bytes that move and a
bandwidth.

    python benchmarks/scaling.py [--model resnet20] [--batch 256] [--rounds 5]
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from transformable.costing.budget import Budget
from transformable.models import build
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep
from transformable.settings import Searching, Training
from transformable.tracing.space import Space
from transformable.training.devices import make_fabric
from transformable.training.train import make_sgd

DEVICES = (1, 2, 4, 8)
BANDWIDTHS = {"10 GB/s": 10e9, "1.25 GB/s": 1.25e9}


def training_step(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> Callable[[], object]:
    sgd = make_sgd(model.parameters(), Training())

    def step() -> None:
        sgd.zero_grad()
        F.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        sgd.step()

    return step


def searching_step(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor
) -> Callable[[], object]:
    space, settings = Space.trace(model, (3, 32, 32)), Searching(epochs=1)
    net = make_supernet(model, space, settings, seed=0).train()
    step = SearchStep(net, Budget.of(0.5, space), settings, 10, make_fabric("cpu"))
    return lambda: step(0, 0, (x, y), (x, y))


def seconds(step: Callable[[], object], rounds: int) -> float:
    step()
    taken = []
    for _ in range(rounds):
        begin = time.process_time()
        step()
        taken.append(time.process_time() - begin)
    return statistics.median(taken)


def exchange(parameters: int, devices: int, bandwidth: float) -> float:
    """Seconds of a ring all-reduce of four bytes for each parameter."""
    return 2 * (devices - 1) / devices * 4 * parameters / bandwidth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    parameters = sum(p.numel() for p in build(args.model).parameters())
    print(f"{args.model}, batch {args.batch} of all devices, 3x32x32, {parameters:,} parameters\n")
    print("| devices | images on each | step of | seconds | exchange at", end=" ")
    print(" | ".join(BANDWIDTHS), "| times as fast as one, at", " | ".join(BANDWIDTHS), "|")
    print("| --- " * (4 + 2 * len(BANDWIDTHS)), end="|\n")
    alone: dict[str, float] = {}
    for devices in DEVICES:
        share = args.batch // devices
        x, y = torch.randn(share, 3, 32, 32), torch.arange(share) % 10
        x = x.to(memory_format=torch.channels_last)
        for what, make in (("training", training_step), ("search", searching_step)):
            model = build(args.model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            own = seconds(make(model, x, y), args.rounds)
            alone.setdefault(what, own)
            adds = [exchange(parameters, devices, bandwidth) for bandwidth in BANDWIDTHS.values()]
            shown = " | ".join(f"{1000 * each:.2f} ms" for each in adds)
            faster = " | ".join(f"{alone[what] / (own + each):.2f}" for each in adds)
            print(f"| {devices} | {share} | {what} | {own:.3f} | {shown} | {faster} |", flush=True)


if __name__ == "__main__":
    main()
