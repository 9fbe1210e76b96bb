"""Whether a search may use the images that the unpruned network was trained on.

A network from elsewhere has seen all training images. Here one is trained on half of them. Searches
then learn from the half that it has seen, and from the half that it has not: how far apart their
probabilities are, beside those of two seeds on the same half, and how good the shapes are that come
out, each trained from the unpruned network on all images. What is done is kept in --out.

    python benchmarks/seen_images.py --data-dir DIR --budget 0.5
"""

import argparse
import itertools
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import transformable as tas
from transformable.data import Dataset, load, stratified
from transformable.presets import quick, quick_search, quick_student
from transformable.slimming.fisher import fisher_importance
from transformable.slimming.sort_channels import sort_channels
from transformable.training.calibration import recalibrate, sample_images
from transformable.training.devices import make_fabric
from transformable.training.distill import distill
from transformable.training.session import Session

HALVES = ("seen", "unseen")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--size", type=int, default=16, help="images are averaged to this size")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--teacher-epochs", type=int, default=32, help="of half of the images")
    parser.add_argument("--epochs", type=int, default=4, help="of the training of a shape")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--out", default="runs/seen-images")
    args = parser.parse_args()
    Path(args.out).mkdir(parents=True, exist_ok=True)
    name = "cifar10" if args.size == 32 else f"cifar10:{args.size}"
    data = load(name, args.data_dir, validation=0)
    parts = stratified(data.train.labels, 0.5, seed=0)
    halves = {
        half: replace(data, train=data.train.subset(part))
        for half, part in zip(HALVES, parts, strict=True)
    }
    teacher = trained(args, halves["seen"])
    found = {
        (half, seed): once(
            Path(args.out) / f"{args.budget}-{args.precision}-{args.epochs}-{half}-{seed}.json",
            lambda half=half, seed=seed: searched(args, teacher, halves[half], data, seed),
        )
        for seed in args.seeds
        for half in HALVES
    }
    for half in HALVES:
        accuracies = [100 * found[half, seed]["accuracy"] for seed in args.seeds]
        print(json.dumps({"images": half, "accuracies": accuracies, **mean_and_error(accuracies)}))
    differences = [
        100 * (found["unseen", s]["accuracy"] - found["seen", s]["accuracy"]) for s in args.seeds
    ]
    print(json.dumps({"unseen - seen": mean_and_error(differences)}))
    pairs = {
        "same half, two seeds": [
            (found[half, a], found[half, b])
            for half in HALVES
            for a, b in itertools.combinations(args.seeds, 2)
        ],
        "two halves, same seed": [(found["seen", s], found["unseen", s]) for s in args.seeds],
    }
    for what, both in pairs.items():
        for when in ("start", "end"):
            far = [distance(a[when], b[when]) for a, b in both]
            print(json.dumps({"distance": what, "of the": when, **mean_and_error(far)}))


def trained(args: argparse.Namespace, half: Dataset) -> torch.nn.Module:
    """A network that was trained on these images alone."""
    path = Path(args.out) / f"{args.model}-{args.size}-{args.teacher_epochs}.pt"
    torch.manual_seed(0)
    net = tas.models.build(args.model, num_classes=10)
    if not path.exists():
        settings = replace(quick("cifar10"), epochs=args.teacher_epochs)
        session = Session(fabric=make_fabric("cpu", precision=args.precision))
        print(json.dumps({"teacher": tas.train(net, half, settings, session).accuracy}))
        torch.save(net.state_dict(), path)
    net.load_state_dict(torch.load(path))
    return net.eval()


def once(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not path.exists():
        path.write_text(json.dumps(make()))
    result: dict[str, Any] = json.loads(path.read_text())
    print(json.dumps({"of": path.stem, "accuracy": result["accuracy"]}), flush=True)
    return result


def searched(
    args: argparse.Namespace,
    teacher: torch.nn.Module,
    half: Dataset,
    data: Dataset,
    seed: int,
) -> dict[str, Any]:
    """A search on half of the images, and the accuracy of its shape after training on all."""
    fabric = make_fabric("cpu", precision=args.precision)
    session = Session(seed=seed, fabric=fabric)
    space = tas.Space.trace(teacher, data.info.input_shape)
    budget = tas.Budget.of(args.budget, space, tolerance=0.005)
    ends = {}
    for when, epochs in (("start", 0), ("end", 2)):  # two epochs of half of the images
        settings = replace(quick_search("cifar10"), epochs=epochs)
        ends[when] = tas.search(
            teacher, half, budget, settings, session, space=space, epochs_after=args.epochs
        )
    shape = ends["end"].shape
    sample = sample_images(data.train, 2048, seed).images
    scores = fisher_importance(teacher, space, torch.split(sample, 256))
    small = tas.slim(sort_channels(teacher, space, scores), space, shape)
    recalibrate(small, torch.split(sample, 256), fabric)
    student = replace(quick_student("cifar10"), epochs=args.epochs)
    accuracy = distill(small, data, student, session, teacher=teacher).accuracy
    sizes = {w: {n: p.tolist() for n, p in f.probabilities.items()} for w, f in ends.items()}
    return {"accuracy": accuracy, "shape": shape.to_dict(), **sizes}


def distance(one: dict[str, list[float]], two: dict[str, list[float]]) -> float:
    """How far the expected sizes are apart, in candidates, on average over layers and stages."""

    def mean(row: list[float]) -> float:
        return sum(i * p for i, p in enumerate(row))

    return statistics.mean(abs(mean(one[name]) - mean(two[name])) for name in one)


def mean_and_error(values: list[float]) -> dict[str, float]:
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    mean = statistics.mean(values) if values else float("nan")  # one seed alone has no pairs
    return {"mean": round(mean, 3), "standard_error": round(error, 3)}


if __name__ == "__main__":
    main()
