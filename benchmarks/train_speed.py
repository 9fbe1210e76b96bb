"""Samples per second of tas.train against a bare loop of forward, backward and step.

The bare loop uses one fixed batch. Both are timed in turn, in one process, on random data of
3x32x32, and the medians over all rounds are compared. What tas.train does more is the whole price
of it: drawing and augmenting batches, moving them, learning rates, sums, Fabric.

    python benchmarks/train_speed.py --model resnet20 --batch-size 128 --rounds 5
"""

import argparse
import json
import statistics
import time

import torch
import torch.nn.functional as F

from transformable.data import Dataset, from_tensors
from transformable.models import build
from transformable.settings import Training
from transformable.training.devices import make_fabric
from transformable.training.train import train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20, help="steps a round")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    dataset = random_data(args.batch_size * args.steps)
    bare(args.model, dataset, args.batch_size, 2)  # both warm up once
    looped(args.model, random_data(args.batch_size * 2), args.batch_size)
    rounds: dict[str, list[float]] = {"bare": [], "train": []}
    for _ in range(args.rounds):
        rounds["bare"].append(bare(args.model, dataset, args.batch_size, args.steps))
        rounds["train"].append(looped(args.model, dataset, args.batch_size))
    (slow, fast) = (statistics.median(rounds[name]) for name in ("train", "bare"))
    result = {
        "model": args.model,
        "batch_size": args.batch_size,
        "steps": args.steps,
        "rounds": args.rounds,
        "threads": torch.get_num_threads(),
        "bare_samples_per_second": round(fast, 1),
        "train_samples_per_second": round(slow, 1),
        "ratio": round(slow / fast, 4),
    }
    print(json.dumps(result))


def random_data(count: int) -> Dataset:
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    labels = torch.arange(count) % 10
    return from_tensors((images, labels), (images[:10], labels[:10]), validation=0)


def bare(name: str, dataset: Dataset, batch_size: int, steps: int) -> float:
    """Samples per second of the loop that everybody writes."""
    device = make_fabric().device
    model = build(name).to(device)
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    sgd = torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=5e-4
    )
    (x, y) = next(iter(dataset.train.shuffled(batch_size, seed=0, epoch=0)))
    (x, y) = (x.to(device), y.to(device))
    start = time.perf_counter()
    for _ in range(steps):
        sgd.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()  # type: ignore[no-untyped-call]
        sgd.step()
    loss.item()  # waits for the device
    return steps * batch_size / (time.perf_counter() - start)


def looped(name: str, dataset: Dataset, batch_size: int) -> float:
    """Samples per second of tas.train, by its own metrics."""
    settings = Training(epochs=1, batch_size=batch_size, lr=0.1)
    row = train(build(name), dataset, settings).history[0]
    return float(row["samples_per_second"])


if __name__ == "__main__":
    main()
