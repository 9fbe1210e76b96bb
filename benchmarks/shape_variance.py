"""How much the shape matters: random shapes of one cost, each trained with several seeds.

Half of the shapes change widths alone, half change widths and depths. Each is trained from the
trained network (its most important channels, distillation) and from scratch. The variance between
shapes is compared with that between the seeds of one shape (one-way analysis of variance). What is
done is kept in --out, so that it can go on.

    tas train --model resnet20 --data cifar10:16 --data-dir DIR --epochs 16 --out runs/teacher16
    python benchmarks/shape_variance.py --data-dir DIR --teacher runs/teacher16 --budget 0.5
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import torch

import transformable as tas
from transformable.data import load
from transformable.methods.random import draw_shape
from transformable.networks.weights import load_weights
from transformable.presets import quick, quick_student
from transformable.slimming.fisher import fisher_importance
from transformable.slimming.sort_channels import sort_channels
from transformable.training.calibration import recalibrate, sample_images
from transformable.training.devices import make_fabric
from transformable.training.distill import distill
from transformable.training.session import Session

SIZES = ("width", "both")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data-dir", required=True, help="holds the files of CIFAR-10")
    parser.add_argument("--teacher", required=True, help="run folder of tas train")
    parser.add_argument("--model", default="resnet20")
    parser.add_argument("--size", type=int, default=16, help="images are averaged to this size")
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--shapes", type=int, default=12, help="of each kind")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2, help="of training from the network")
    parser.add_argument("--scratch-epochs", type=int, default=4, help="0: not from scratch")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--out", default="runs/shape-variance")
    args = parser.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    starts = {"trained": args.epochs, "scratch": args.scratch_epochs}
    for start, epochs in starts.items():
        for sizes in SIZES if epochs else ():
            found = [
                [accuracy(args, out, start, epochs, sizes, i, seed) for seed in range(args.seeds)]
                for i in range(args.shapes)
            ]
            print(json.dumps({"start": start, "sizes": sizes, **analysis(found)}), flush=True)


def accuracy(
    args: argparse.Namespace,
    out: Path,
    start: str,
    epochs: int,
    sizes: tas.settings.Sizes,
    number: int,
    seed: int,
) -> float:
    path = out / f"{args.budget}-{start}-{epochs}-{sizes}-{number}-{seed}.json"
    if not path.exists():
        path.write_text(json.dumps(train_shape(args, start, epochs, sizes, number, seed)))
    value: float = json.loads(path.read_text())["accuracy"]
    return 100 * value


def train_shape(
    args: argparse.Namespace,
    start: str,
    epochs: int,
    sizes: tas.settings.Sizes,
    number: int,
    seed: int,
) -> dict[str, object]:
    name = "cifar10" if args.size == 32 else f"cifar10:{args.size}"
    data = load(name, args.data_dir, validation=0.05)
    teacher = tas.models.build(args.model, num_classes=10)
    load_weights(teacher, Path(args.teacher) / "model.safetensors")
    space = tas.Space.trace(teacher, data.info.input_shape, search=sizes)
    budget = tas.Budget.of(args.budget, space, tolerance=0.005)
    shape = draw_shape(space, budget, torch.Generator().manual_seed(number))
    fabric = make_fabric("cpu", precision=args.precision)
    session = Session(seed=seed, fabric=fabric)
    if start == "scratch":
        torch.manual_seed(seed)
        small = tas.slim(teacher, space, shape, weights="fresh")
        trained = tas.train(small, data, replace(quick(name), epochs=epochs), session)
    else:
        images = sample_images(data.train, 2048, 0).images
        scores = fisher_importance(teacher, space, torch.split(images, 256))
        small = tas.slim(sort_channels(teacher, space, scores), space, shape)
        recalibrate(small, torch.split(images, 256), fabric)
        settings = replace(quick_student(name), epochs=epochs)
        trained = distill(small, data, settings, session, teacher=teacher)
    return {"accuracy": trained.accuracy, "shape": shape.to_dict()}


def analysis(found: list[list[float]]) -> dict[str, object]:
    """Mean, and the standard deviations between the seeds of a shape and between shapes.

    The latter is what remains of the variance of the shapes' means without that of the seeds.
    """
    within = statistics.mean(statistics.variance(row) for row in found)
    means = [statistics.mean(row) for row in found]
    between = statistics.variance(means) - within / len(found[0])
    return {
        "n": [len(found), len(found[0])],
        "mean": round(statistics.mean(means), 2),
        "std_between_shapes": round(max(0.0, between) ** 0.5, 2),
        "std_within_a_shape": round(within**0.5, 2),
        "lowest": round(min(means), 2),
        "highest": round(max(means), 2),
    }


if __name__ == "__main__":
    main()
