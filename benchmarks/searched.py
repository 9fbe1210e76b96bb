"""Shapes that were searched against uniform ones of the same cost, both trained from scratch.

For each seed: the network is trained (preset quick), searched (preset scratch), and the shape that
is found and the uniform shape of the same cost are trained from scratch with the same schedule and
the same seed (preset quick), by the labels alone (none), or by the trained network's answers too
(kd, preset scratch). What is done is kept in --out, so that it can go on.

    python benchmarks/searched.py --data-dir DIR --size 16 --budgets 0.5 0.3 --seeds 0 1 2 \
        --transfers none kd
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import transformable as tas
from transformable.costing.budget import Budget
from transformable.data import Dataset, load
from transformable.methods.uniform import uniform_shape
from transformable.presets import quick, scratch_search, scratch_student
from transformable.searching.search import search
from transformable.training.devices import make_fabric
from transformable.training.distill import distill
from transformable.training.session import Session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--size", type=int, default=32, help="images are averaged to this size")
    parser.add_argument("--budgets", nargs="+", type=float, default=[0.5])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--transfers", nargs="+", choices=["none", "kd"], default=["none"])
    parser.add_argument("--out", default="runs/searched", help="where results are kept")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    dataset = cifar10(args.data_dir, args.size)
    Path(args.out).mkdir(parents=True, exist_ok=True)
    kinds = itertools.product(args.budgets, args.transfers)
    found = {
        (budget, transfer): [compare(args, dataset, budget, transfer, seed) for seed in args.seeds]
        for budget, transfer in kinds
    }
    for (budget, transfer), rows in found.items():
        about = {"budget": budget, "transfer": transfer, "n": len(rows)}
        print(json.dumps({**about, **summary(rows)}))


def compare(
    args: argparse.Namespace, dataset: Dataset, budget: float, transfer: str, seed: int
) -> dict[str, Any]:
    out = Path(args.out)
    space = tas.Space.trace(build(args.model, seed), dataset.info.input_shape)

    def scratch(shape: tas.Shape) -> dict[str, Any]:
        torch.manual_seed(seed)
        small = tas.slim(build(args.model, seed), space, shape, weights="fresh")
        session = make_session(args, seed)
        if transfer == "kd":
            teacher = pretrained(args, dataset, seed)
            trained = distill(small, dataset, scratch_student("cifar10"), session, teacher=teacher)
        else:
            trained = tas.train(small, dataset, quick("cifar10"), session)
        cost = {"macs": tas.macs(space, shape), "params": tas.params(space, shape)}
        return {"accuracy": trained.accuracy, **cost}

    def searched() -> dict[str, Any]:
        start = time.perf_counter()
        net = pretrained(args, dataset, seed)
        target = Budget.of(budget, space)
        settings, session = scratch_search("cifar10"), make_session(args, seed)
        result = search(net, dataset, target, settings, session, space=space)
        return {
            "shape": json.loads(result.shape.to_json()),
            "how": result.derived.how,
            "given_up": result.derived.given_up,
            "history": result.history,
            "seconds": time.perf_counter() - start,
        }

    key = f"{args.model}-{args.size}-{args.precision}-{budget}-{seed}"
    found = once(out / f"{key}-search.json", searched)
    shape = tas.Shape.from_json(json.dumps(found["shape"]))
    same = Budget.of(tas.macs(space, shape), space)
    suffix = "" if transfer == "none" else f"-{transfer}"
    return {
        "searched": once(out / f"{key}-searched{suffix}.json", lambda: scratch(shape)),
        "uniform": once(
            out / f"{key}-uniform{suffix}.json", lambda: scratch(uniform_shape(space, same))
        ),
    }


def pretrained(args: argparse.Namespace, dataset: Dataset, seed: int) -> torch.nn.Module:
    path = Path(args.out) / f"{args.model}-{args.size}-{args.precision}-{seed}.pt"
    net = build(args.model, seed)
    if not path.exists():
        settings = replace(quick("cifar10"), epochs=8)
        trained = tas.train(net, dataset, settings, make_session(args, seed))
        print(json.dumps({"seed": seed, "full": trained.accuracy}), flush=True)
        torch.save(net.state_dict(), path)
    net.load_state_dict(torch.load(path))
    return net


def make_session(args: argparse.Namespace, seed: int) -> Session:
    return Session(seed=seed, fabric=make_fabric("cpu", precision=args.precision))


def build(model: str, seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return tas.models.build(model, num_classes=10)


def cifar10(folder: str, size: int) -> Dataset:
    return load("cifar10" if size == 32 else f"cifar10:{size}", folder, validation=0)


def once(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    if not path.exists():
        path.write_text(json.dumps(make()))
    result: dict[str, Any] = json.loads(path.read_text())
    shown = {key: value for key, value in result.items() if key not in ("history", "shape")}
    print(json.dumps({"of": path.stem, **shown}), flush=True)
    return result


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for kind in ("searched", "uniform"):
        accuracies = [100 * row[kind]["accuracy"] for row in rows]
        result[kind] = f"{statistics.mean(accuracies):.2f} ± {spread(accuracies):.2f} %"
        result[f"{kind}_macs"] = [row[kind]["macs"] for row in rows]
        result[f"{kind}_each"] = [round(value, 2) for value in accuracies]
    pairs = [100 * (row["searched"]["accuracy"] - row["uniform"]["accuracy"]) for row in rows]
    error = spread(pairs) / len(pairs) ** 0.5
    result["difference"] = f"{statistics.mean(pairs):+.2f} ± {error:.2f} (standard error)"
    return result


def spread(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else float("nan")


if __name__ == "__main__":
    main()
