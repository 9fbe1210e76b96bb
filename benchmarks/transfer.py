"""The four ways of transfer, on one shape: none, init, kd and init+kd.

For each seed: the unpruned network is trained and searched (preset scratch), and trained again for
--teacher-epochs to be the teacher; the shape that is found is trained four times with the same
schedule (preset quick). What is done is kept in --out, so that it can go on.

    python benchmarks/transfer.py --data-dir DIR --size 16 --teacher-epochs 16 --seeds 0 1 2
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from searched import build, cifar10, once, pretrained, spread

import transformable as tas
from transformable.data import Dataset
from transformable.presets import quick, scratch_search
from transformable.settings import Distilling, Transfer
from transformable.training.distill import distill, student_network
from transformable.training.session import Session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--size", type=int, default=32, help="images are averaged to this size")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--teacher-epochs", type=int, default=16)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--transfer", nargs="+", default=list(get_args(Transfer)))
    parser.add_argument("--kd", default="soft", help="soft, or paper")
    parser.add_argument("--unsorted", action="store_true", help="init from the first channels")
    parser.add_argument("--out", default="runs/transfer", help="where results are kept")
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    dataset = cifar10(args.data_dir, args.size)
    Path(args.out).mkdir(parents=True, exist_ok=True)
    rows = [row for seed in args.seeds for row in each_transfer(args, dataset, seed)]
    for kind in ("teacher", *args.transfer):
        accuracies = [100 * row["accuracy"] for row in rows if row["transfer"] == kind]
        mean = f"{statistics.mean(accuracies):.2f} ± {spread(accuracies):.2f} %"
        each = [round(value, 2) for value in accuracies]
        print(json.dumps({"transfer": kind, "accuracy": mean, "n": len(each), "each": each}))


def trained_teacher(args: argparse.Namespace, dataset: Dataset, seed: int) -> torch.nn.Module:
    path = Path(args.out) / f"{args.model}-{args.size}-{seed}-teacher{args.teacher_epochs}.pt"
    net = build(args.model, seed)
    if not path.exists():
        settings = replace(quick("cifar10"), epochs=args.teacher_epochs)
        tas.train(net, dataset, settings, Session(seed=seed))
        torch.save(net.state_dict(), path)
    net.load_state_dict(torch.load(path))
    return net


def each_transfer(args: argparse.Namespace, dataset: Dataset, seed: int) -> list[dict[str, Any]]:
    out, key = Path(args.out), f"{args.model}-{args.size}-{args.budget}-{seed}"
    teacher = trained_teacher(args, dataset, seed)
    space = tas.Space.trace(build(args.model, seed), dataset.info.input_shape)

    def searched() -> dict[str, Any]:
        net = pretrained(args, dataset, seed)
        settings, session = scratch_search("cifar10"), Session(seed=seed)
        found = tas.search(net, dataset, args.budget, settings, session, space=space)
        return {"shape": json.loads(found.shape.to_json()), "macs": found.derived.cost}

    def tested() -> dict[str, Any]:
        return {"transfer": "teacher", **tas.evaluate(teacher, dataset.test)}

    def trained(kind: Transfer) -> dict[str, Any]:
        start = Distilling(transfer=kind, kd=args.kd, sort=not args.unsorted)
        settings = replace(start, **vars(quick("cifar10")))
        student = student_network(
            teacher, space, shape, transfer=kind, sort=settings.sort, seed=seed
        )
        result = distill(student, dataset, settings, Session(seed=seed), teacher=teacher)
        return {"transfer": kind, "accuracy": result.accuracy, "seed": seed}

    found = once(out / f"{key}-search.json", searched)
    shape = tas.Shape.from_json(json.dumps(found["shape"]))
    rows = [once(out / f"{key}-teacher{args.teacher_epochs}.json", tested)]
    variant = ("" if args.kd == "soft" else "-paper") + ("-unsorted" if args.unsorted else "")
    for kind in args.transfer:
        of = "" if kind == "none" else f"-of{args.teacher_epochs}"
        path = out / f"{key}-{kind}{of}{variant}.json"
        rows.append(once(path, lambda kind=kind: trained(kind)))
    return rows


if __name__ == "__main__":
    main()
