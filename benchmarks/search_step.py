"""What a search step costs beside plain training: time and peak memory, as one Markdown table.

A search step is one step of the weights and one of the sizes, with all that the search does in them
(the draw, the expected and the derived cost, both optimisers, the metrics), so it is compared with
two plain training steps of the unpruned network. A shared step, in which both learn from the same
batch, is compared with one. All steps of a network are timed in turn in one process; a ratio is the
median over rounds. Peak memory is that of a process of its own for each, without what it held
before its first step.

    python benchmarks/search_step.py --models resnet20 resnet56 --aligns pool pad --rounds 20
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, get_args

import torch
import torch.nn.functional as F

from transformable.cli.allocator import keep_memory
from transformable.costing.budget import Budget
from transformable.models import build
from transformable.searching.search import make_supernet
from transformable.searching.search_step import SearchStep
from transformable.settings import Align, Searching
from transformable.tracing.space import Space
from transformable.training.devices import make_fabric

Step = Callable[[], object]

SIZES = {"resnet50": 64, "resnet18": 64, "resnet34": 64, "mobilenet_v2": 64}
"""Height and width of the images, where it is not 32."""
BATCHES = {"resnet20": 128, "resnet56": 64}
"""Images a batch, where it is not 16."""


class Way(NamedTuple):
    """A way to train, by name; without an alignment it is plain training."""

    align: str = ""
    select: int = 0
    shared: bool = False

    @property
    def label(self) -> str:
        return f"{self.align}, select {self.select}" + (", shared" if self.shared else "")


PLAIN = Way()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", default=["resnet20"])
    parser.add_argument("--aligns", nargs="+", default=["pool"], choices=get_args(Align))
    parser.add_argument("--selects", nargs="+", type=int, default=[2, 8])
    parser.add_argument("--batch-size", type=int, help="by default it depends on the network")
    parser.add_argument("--size", type=int, help="height and width of the images; the same")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    parser.add_argument("--memory-of", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.memory_of:
        align, select, shared = args.memory_of
        way = Way(align, int(select), shared == "True")
        print(peak_memory(make(args.models[0], way, *batch(args.models[0], args))))
        return
    keep_memory()  # as the commands do
    print(f"{torch.get_num_threads()} threads, {args.rounds} rounds\n")
    print("| network | batch | candidates | plain, ms | time | memory |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model in args.models:
        for row in rows(model, args):
            print("|", " | ".join(row), "|", flush=True)


def rows(model: str, args: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    x, y = batch(model, args)
    ways = [PLAIN]
    for align in args.aligns:
        ways += [Way(align, select) for select in args.selects]
        ways.append(Way(align, args.selects[0], shared=True))
    times = interleaved({way: make(model, way, x, y) for way in ways}, args.rounds)
    plain = statistics.median(times[PLAIN]) * 1000
    memory = {} if args.no_memory else {way: in_own_process(model, way) for way in ways}
    for way in ways[1:]:
        pairs = zip(times[way], times[PLAIN], strict=True)
        # the median over rounds: what disturbs a round disturbs both sides of it
        ratio = statistics.median(mine / other for mine, other in pairs)
        held = f"{memory[way] / memory[PLAIN]:.2f}" if memory else "-"
        images = "x".join(map(str, x.shape))
        yield model, images, way.label, f"{plain:.0f}", f"{ratio:.3f}", held


def batch(model: str, args: argparse.Namespace) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    size, count = args.size or SIZES.get(model, 32), args.batch_size or BATCHES.get(model, 16)
    x = torch.randn(count, 3, size, size).contiguous(memory_format=torch.channels_last)
    return x, torch.arange(count) % 10


def make(model: str, way: Way, x: torch.Tensor, y: torch.Tensor) -> Step:
    """One plain training step, or the same number of steps of a search."""
    return search_step(model, way, x, y) if way.align else plain_step(model, x, y)


def plain_step(model: str, x: torch.Tensor, y: torch.Tensor) -> Step:
    net = build(model, num_classes=10).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9, nesterov=True)

    def step() -> None:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def search_step(model: str, way: Way, x: torch.Tensor, y: torch.Tensor) -> Step:
    net = build(model, num_classes=10)
    space = Space.trace(net, (3, *x.shape[2:]))
    settings = Searching(select=way.select, align=way.align, epochs=1, lr=0.01)
    supernet = make_supernet(net, space, settings, 0).train()
    fabric = make_fabric("cpu")
    step = SearchStep(supernet, Budget.of(0.5, space), settings, 1000, fabric)
    count = iter(range(10**9))
    batches = [(x, y)] if way.shared else [(x, y), (x, y)]
    return lambda: step(next(count), 0, *batches)


def interleaved(steps: dict[Way, Step], rounds: int) -> dict[Way, list[float]]:
    """Seconds per step: those of a step of the weights and one of the sizes are halved."""
    times: dict[Way, list[float]] = {way: [] for way in steps}
    for step in steps.values():
        step()  # warm up
    for number in range(rounds):
        for way in sorted(steps, reverse=number % 2 == 1):
            repeats = 1 if way.align else 2
            start = time.perf_counter()
            for _ in range(repeats):
                steps[way]()
            passed = time.perf_counter() - start
            times[way].append(passed if way.shared else passed / 2)
    return times


def in_own_process(model: str, way: Way) -> int:
    command = [sys.executable, *sys.argv, "--models", model, "--memory-of", *map(str, way)]
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
