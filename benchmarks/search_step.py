"""What a search step costs beside plain training: time and peak memory.

A search step is one step of the weights and one of the sizes, with all that the search does in them
(the draw, the expected and the derived cost, both optimisers, the metrics), so it is compared with
two plain training steps of the unpruned network. All are timed in turn in one process, and medians
are compared. Peak memory is that of a process of its own for each, without what it held before its
first step.

    python benchmarks/search_step.py --model resnet20 --rounds 20
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from transformable.costing.budget import Budget
from transformable.models import build
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep
from transformable.settings import Searching
from transformable.tracing.space import Space
from transformable.training.devices import make_fabric

Step = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=32, help="height and width of the images")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--align", default="pool")
    parser.add_argument("--memory-of", default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        print(peak_memory(steps(args)[args.memory_of]))
        return
    times = interleaved(steps(args), args.rounds)
    memory = {name: in_own_process(name) for name in times}
    middle = {name: statistics.median(values) for name, values in times.items()}
    result = {
        "model": args.model,
        "batch_size": args.batch_size,
        "threads": torch.get_num_threads(),
        "rounds": args.rounds,
        "seconds": {name: round(value, 4) for name, value in middle.items()},
        "memory_mb": {name: round(value / 2**20) for name, value in memory.items()},
        "time_of_search_to_plain": {
            name: ratio(times, name, "plain") for name in times if name != "plain"
        },
        "time_of_select_8_to_2": ratio(times, "select 8", "select 2"),
        "memory_of_search_to_plain": {
            name: round(memory[name] / memory["plain"], 3) for name in memory if name != "plain"
        },
        "memory_of_select_8_to_2": round(memory["select 8"] / memory["select 2"], 3),
    }
    print(json.dumps(result, indent=2))


def ratio(times: dict[str, list[float]], name: str, other: str) -> float:
    """The median over rounds: what disturbs a round disturbs both sides of it."""
    pairs = zip(times[name], times[other], strict=True)
    return round(statistics.median(a / b for a, b in pairs), 4)


def steps(args: argparse.Namespace) -> dict[str, Step]:
    torch.manual_seed(0)
    x = torch.randn(args.batch_size, 3, args.size, args.size)
    x = x.contiguous(memory_format=torch.channels_last)
    y = torch.arange(args.batch_size) % 10
    names = [args.memory_of] if args.memory_of else ["plain", "select 2", "select 8"]
    return {name: make(name, args, x, y) for name in names}


def make(name: str, args: argparse.Namespace, x: torch.Tensor, y: torch.Tensor) -> Step:
    if name == "plain":
        return two_plain_steps(args.model, x, y)
    return search_step(args.model, int(name.split()[1]), args.align, x, y)


def two_plain_steps(model: str, x: torch.Tensor, y: torch.Tensor) -> Step:
    net = build(model, num_classes=10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, nesterov=True)

    def step() -> None:
        for _ in range(2):
            loss = F.cross_entropy(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    return step


def search_step(model: str, select: int, align: str, x: torch.Tensor, y: torch.Tensor) -> Step:
    net = build(model, num_classes=10)
    space = Space.trace(net, (3, *x.shape[2:]))
    settings = Searching(select=select, align=align, epochs=1, lr=0.01)
    supernet = make_supernet(net, space, settings, 0).train()
    fabric = make_fabric("cpu")
    step = SearchStep(supernet, Budget.of(0.5, space), settings, 1000, fabric)
    count = iter(range(10**9))
    return lambda: step(next(count), 0, (x, y), (x, y))


def interleaved(steps: dict[str, Step], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        step()  # warm up
    for number in range(rounds):
        for name in sorted(steps, reverse=number % 2 == 1):
            start = time.perf_counter()
            steps[name]()
            times[name].append(time.perf_counter() - start)
    return times


def in_own_process(name: str) -> int:
    command = [sys.executable, *sys.argv, "--memory-of", name]
    # every tensor has pages of its own, so that what is freed is seen to be freed
    exact = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **exact}
    )
    return int(done.stdout)


def peak_memory(step: Step) -> int:
    before = status("VmRSS")
    for _ in range(3):
        step()
    return status("VmHWM") - before


def status(key: str) -> int:
    """Bytes, from what Linux says of this process."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(key))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    main()
