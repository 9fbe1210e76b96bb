"""Photos at full size: how fast they are read, and how good the estimates of a dry run are.

Reading: images per second of the batches that a training gets (decoded, cropped, colours jittered,
mirrored, normalised), beside Pillow's decode and resize alone in a DataLoader with the same
workers; in turns, in one process, and the medians over the rounds are compared. Estimates: time and
memory that `tas search --dry-run` names, beside what the same search then takes.

    python benchmarks/photos.py DIR --workers 1 --search --sizes depth --pretrain-epochs 1
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from transformable import data
from transformable.cli.allocator import keep_memory
from transformable.data.folder import PhotoSplit
from transformable.data.photos import crop_box

SIZE = 224


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", help="photos, one folder for each class")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--photos", type=int, default=480, help="least number in an epoch")
    parser.add_argument("--search", action="store_true", help="also compare the estimates")
    args, options = parser.parse_known_args()  # the others are for tas search
    keep_memory()  # as every command does
    result: dict[str, Any] = {"workers": args.workers, **reading(args)}
    if args.search:
        result |= estimates(args, options)
    print(json.dumps(result))


def reading(args: argparse.Namespace) -> dict[str, float]:
    """Images per second of both, and their ratio."""
    split = data.load(f"folder:{args.folder}", validation=0, workers=args.workers).train
    assert isinstance(split, PhotoSplit)
    # an epoch long enough for the start of the workers not to count
    times = -(-args.photos // len(split))
    split = replace(split, paths=split.paths * times, labels=split.labels.repeat(times))
    rounds: dict[str, list[float]] = {"pillow": [], "training": []}
    spent: dict[str, list[float]] = {"pillow": [], "training": []}
    for number in range(args.rounds + 1):
        pillow = DataLoader(
            Resized(split.paths),
            batch_size=args.batch_size,
            drop_last=True,
            num_workers=args.workers,
            collate_fn=np.stack,
        )
        for name, batches in (
            ("pillow", pillow),
            ("training", split.shuffled(args.batch_size, seed=0, epoch=number)),
        ):
            start, cpu, count = time.perf_counter(), processor_seconds(), 0
            for batch in batches:
                count += len(batch if name == "pillow" else batch[0])
            rounds[name].append(count / (time.perf_counter() - start))
            spent[name].append((processor_seconds() - cpu) / count)
    # the first round reads the files from the disk
    alone, all_of_it = (statistics.median(rounds[name][1:]) for name in ("pillow", "training"))
    ratios = [b / a for a, b in zip(rounds["pillow"][1:], rounds["training"][1:], strict=True)]
    return {
        "pillow_images_per_second": round(alone, 1),
        "training_images_per_second": round(all_of_it, 1),
        "ratio": round(statistics.median(ratios), 3),
        # of all processes together, the main one too; it does not depend on what else runs
        "processor_ratio": round(
            statistics.median(spent["pillow"][1:]) / statistics.median(spent["training"][1:]), 3
        ),
    }


def processor_seconds() -> float:
    """Of this process and of the workers that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


class Resized(TorchDataset[NDArray[np.uint8]]):
    """Photos of which Pillow decodes and resizes a crop, drawn as in training, and nothing else."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self.paths, self.random = paths, np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        with Image.open(self.paths[index]) as image:
            left, top, width, height = crop_box(image.width, image.height, self.random)
            photo = image if image.mode == "RGB" else image.convert("RGB")
            small = photo.resize(
                (SIZE, SIZE), Image.Resampling.BILINEAR, box=(left, top, left + width, top + height)
            )
        return np.asarray(small)


def estimates(args: argparse.Namespace, options: list[str]) -> dict[str, float]:
    """What a dry run says, and what the search then takes: seconds, and MiB at the peak."""
    command = [sys.executable, "-m", "transformable", "search", "--json", "--model", args.model]
    command += [f"--data=folder:{args.folder}", f"--batch-size={args.batch_size}", *options]
    said, dry_seconds, _ = measured([*command, "--dry-run"])
    with tempfile.TemporaryDirectory() as scratch:
        _, seconds, memory = measured([*command, f"--out={scratch}/run"])
    return {
        "dry_run_seconds": round(dry_seconds, 1),
        "estimated_seconds": round(said["seconds"], 1),
        "seconds": round(seconds, 1),
        "estimated_mib": round(said["memory_bytes"] / 2**20),
        "mib": round(memory / 2**20),
    }


def measured(command: list[str]) -> tuple[dict[str, Any], float, int]:
    """What a command prints, its seconds, and the bytes of its process at the peak."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return json.loads(printed), time.perf_counter() - start, 1024 * used.ru_maxrss


if __name__ == "__main__":
    main()
