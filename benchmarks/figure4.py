"""The paper's figure 4 with settings of one's own; `tas reproduce figure4` has those of a scale.

By the paper's recipe except for its length and, because of that, the learning rate of the logits;
from scratch, or from trained weights. What is done is kept in --out, so that it can go on.

    python benchmarks/figure4.py --data-dir DIR --size 16 --picture docs/figure4.png
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from searched import build, cifar10

from transformable.data import Dataset
from transformable.presets import paper_search
from transformable.reproducing.figure4 import Strategy, csv_of, draw, history_of, some, strategies
from transformable.training.session import Session


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
    runs = {each: run(args, dataset, each) for each in strategies(args.lambdas)}
    draw(runs, Path(args.picture), args.budget)
    Path(args.picture).with_suffix(".csv").write_text(csv_of(runs))


def run(args: argparse.Namespace, dataset: Dataset, strategy: Strategy) -> dict[str, Any]:
    path = Path(args.out) / f"{strategy.name}.json"
    if not path.exists():
        base = replace(
            paper_search("cifar10"),
            epochs=args.epochs,
            batch_size=args.batch_size,
            arch_lr=args.arch_lr,
            start="even" if args.weights else "scratch",
        )
        net = build(args.model, 0)
        if args.weights:
            net.load_state_dict(torch.load(args.weights))
        found = history_of(net, dataset, strategy.settings(base), Session(), args.budget)
        path.write_text(json.dumps(found))
    result: dict[str, Any] = json.loads(path.read_text())
    print(json.dumps({"of": path.stem, **result["rows"][-1], "how": result["how"]}), flush=True)
    return result


if __name__ == "__main__":
    main()
