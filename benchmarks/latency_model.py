"""How well the sum of the parts says how long a network takes, on shapes that it has not seen.

    python benchmarks/latency_model.py [--networks resnet20 mobilenet_v2 vgg] [--runtime torch]
        [--shapes 40] [--threads 1] [--batch 1]

For each network the table is built, then networks of random shape are timed, each in turn with the
unpruned one, and compared with what the table says. The noise floor is the unpruned network timed
in turn with itself, as often.
"""

import argparse
import statistics
import time

import torch
from torch import nn

import transformable as tas
from transformable.settings import Runtime
from transformable.timing.build import measure_latency
from transformable.timing.runtimes import whole_call
from transformable.timing.stopwatch import time_calls, using_threads
from transformable.timing.table_file import conditions_here

VGG = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool", 512, 512, 512, "pool")
SIZES = {"resnet20": 32, "resnet56": 32, "mobilenet_v2": 96, "vgg": 32}


def vgg() -> nn.Module:
    """A VGG with batch norms, for 32x32 images."""
    layers: list[nn.Module] = []
    channels = 3
    for width in VGG:
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
        else:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def ranks(values: list[float]) -> list[int]:
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


def measure(name: str, runtime: Runtime, batch: int, threads: int, shapes: int) -> None:
    model = (vgg() if name == "vgg" else tas.models.build(name)).eval()
    size = SIZES[name]
    space = tas.Space.trace(model, (3, size, size))
    conditions = conditions_here(runtime, batch, threads, torch.device("cpu"))
    start = time.perf_counter()
    measured = measure_latency(model, space, conditions)
    seconds = time.perf_counter() - start
    latency = measured.latency
    generator = torch.Generator().manual_seed(2024)
    x = torch.rand(batch, 3, size, size)
    said, seen, floor = [], [], []
    with using_threads(threads):
        full, same = (whole_call(runtime, model, x) for _ in range(2))
        for _ in range(shapes):
            shape = space.sample(generator)
            small = whole_call(runtime, tas.slim(model, space, shape), x)
            timed = time_calls({"small": small, "full": full})
            said.append(latency.cost(space, shape) / latency.full)
            seen.append(timed["small"].median_ms / timed["full"].median_ms)
            # not three at a time: the caches of a processor may not hold the weights of all
            timed = time_calls({"same": same, "full": full})
            floor.append(abs(timed["same"].median_ms / timed["full"].median_ms - 1))
    errors = [abs(a / b - 1) for a, b in zip(said, seen, strict=True)]
    within = sum(error <= 0.1 for error in errors) / len(errors)
    spearman = statistics.correlation(ranks(said), ranks(seen))
    print(
        f"| {name} | {runtime} | {latency.full / 1e6:.2f} ms | {seconds:.0f} s | {within:.0%} | "
        f"{100 * statistics.median(errors):.1f} % | {100 * max(errors):.1f} % | {spearman:.3f} | "
        f"{100 * statistics.median(floor):.1f} %, {100 * max(floor):.1f} % |",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=["resnet20", "mobilenet_v2", "vgg"])
    parser.add_argument("--runtime", default="torch", choices=["torch", "onnxruntime"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shapes", type=int, default=40)
    given = parser.parse_args()
    print(
        "| network | runtime | unpruned | table built in | within 10 % | median error | largest | "
        "Spearman | noise floor: median, largest |\n" + "| --- " * 9 + "|"
    )
    for network in given.networks:
        measure(network, given.runtime, given.batch, given.threads, given.shapes)
