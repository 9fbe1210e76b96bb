"""The paper's figure 4 in small: cost and discrepancy while four strategies search.

{channel-wise interpolation, zero padding} x {Gumbel samples, plain softmax mixture}, without and
with the pull of the cost, by the paper's recipe except for its length and, because of that, the
learning rate of the logits; from scratch, or from trained weights. What is done is kept in --out,
so that it can go on.

    python benchmarks/figure4.py --data-dir DIR --size 16 --picture docs/figure4.png
"""

import argparse
import csv
import itertools
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import torch
from searched import build, cifar10

import transformable as tas
from transformable.data import Dataset, stratified
from transformable.presets import paper_search
from transformable.searching.search import search
from transformable.settings import Searching

COLOURS = {
    ("pool", "gumbel"): "#0072b2",
    ("pool", "softmax"): "#56b4e9",
    ("pad", "gumbel"): "#d55e00",
    ("pad", "softmax"): "#e69f00",
}
NAMES = {
    ("pool", "gumbel"): "interpolation, samples (the paper's)",
    ("pool", "softmax"): "interpolation, mixture",
    ("pad", "gumbel"): "padding, samples",
    ("pad", "softmax"): "padding, mixture",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--size", type=int, default=16, help="images are averaged to this size")
    parser.add_argument("--images", type=int, default=8_000, help="how many of them")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--arch-lr", type=float, default=0.02)
    parser.add_argument("--weights", default=None, help="state dict of a trained network")
    parser.add_argument("--lambdas", nargs="+", type=float, default=[0.0, 2.0])
    parser.add_argument("--out", default="runs/figure4", help="where results are kept")
    parser.add_argument("--picture", default="figure4.png")
    parser.add_argument("--threads", type=int, default=None)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    dataset = some(cifar10(args.data_dir, args.size), args.images)
    Path(args.out).mkdir(parents=True, exist_ok=True)
    runs = {
        (strategy, weight): run(args, dataset, strategy, weight)
        for weight, strategy in itertools.product(args.lambdas, NAMES)
    }
    draw(runs, args)
    save(runs, Path(args.picture).with_suffix(".csv"))


def some(dataset: Dataset, count: int) -> Dataset:
    share = min(0.999, count / len(dataset.train))
    _, part = stratified(dataset.train.labels, share, 0)
    train = dataset.train.subset(part)
    return Dataset(info=dataset.info, train=train, validation=dataset.test, test=dataset.test)


def run(
    args: argparse.Namespace, dataset: Dataset, strategy: tuple[str, str], weight: float
) -> dict[str, Any]:
    path = Path(args.out) / f"{'-'.join(strategy)}-{weight}.json"
    if not path.exists():
        settings = Searching(
            **{
                **vars(paper_search("cifar10")),
                "epochs": args.epochs,
                "batch_size": args.batch_size,
                "arch_lr": args.arch_lr,
                "align": strategy[0],
                "sampling": strategy[1],
                "lambda_cost": weight,
            }
        )
        net = build(args.model, 0)
        if args.weights:
            net.load_state_dict(torch.load(args.weights))
        found = search(net, dataset, args.budget, settings)
        space = tas.Space.trace(net, dataset.info.input_shape)
        full = tas.macs(space, space.full)
        rows = [
            {
                "step": row["step"],
                "expected": row["expected"] / full,
                "derived": row["derived"] / full,
                "discrepancy": row["discrepancy"],
                "accuracy": row["architecture_accuracy"],
            }
            for row in found.history
        ]
        end = {"how": found.derived.how, "final": found.derived.cost / full}
        path.write_text(json.dumps({"rows": rows, **end}))
    result: dict[str, Any] = json.loads(path.read_text())
    print(json.dumps({"of": path.stem, **result["rows"][-1], "how": result["how"]}), flush=True)
    return result


def draw(runs: dict[Any, dict[str, Any]], args: argparse.Namespace) -> None:
    figure, axes = plt.subplots(
        2, len(args.lambdas), figsize=(9, 6), sharex=True, sharey="row", squeeze=False
    )
    for column, weight in enumerate(args.lambdas):
        top, bottom = axes[0][column], axes[1][column]
        top.set_title(f"λ = {weight:g}")
        top.axhspan(0.95 * args.budget, 1.05 * args.budget, color="0.85", zorder=0)
        for strategy, colour in COLOURS.items():
            rows = runs[strategy, weight]["rows"]
            steps = [row["step"] for row in rows]
            name = NAMES[strategy]
            top.plot(steps, [r["expected"] for r in rows], color=colour, label=name)
            top.plot(steps, [r["derived"] for r in rows], color=colour, linestyle=":")
            bottom.plot(steps, [r["discrepancy"] for r in rows], color=colour, label=name)
        bottom.set_xlabel("step")
        for axis in (top, bottom):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("MACs, share of the full network\n(expected; dotted: derived)")
    axes[1][0].set_ylabel("discrepancy")
    axes[1][-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(args.picture, dpi=120)


def save(runs: dict[Any, dict[str, Any]], path: Path) -> None:
    rows = [
        {"align": strategy[0], "sampling": strategy[1], "lambda": weight, **row}
        for (strategy, weight), found in runs.items()
        for row in found["rows"]
    ]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
