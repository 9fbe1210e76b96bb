"""Run folders with made-up numbers, and their reports."""

import csv
import json
import math
import shutil
from pathlib import Path
from typing import Any

from support.html_tree import Node, parse
from transformable.report import write_report

SIZES = {16: [5, 6, 8, 10, 11, 13, 14, 16], 32: [10, 13, 16, 19, 22, 26, 29, 32]}
BLOCKS = 3
KEPT_BLOCKS = {"stages.0": 2, "stages.1": 3}


def layer_record(
    name: str, stage: str | None, block: int | None, full: int, kept: int, kind: str = "conv"
) -> dict[str, Any]:
    before = 2304 * full
    return {
        "name": name,
        "stage": stage,
        "block": block,
        "kind": kind,
        "full": full,
        "kept": kept,
        "kernel": [3, 3] if kind == "conv" else [],
        "size": [32, 32] if kind == "conv" else [],
        "macs_before": before,
        "macs_after": before * kept // full,
        "params_before": 9 * full,
        "params_after": 9 * kept,
    }


def layer_records() -> list[dict[str, Any]]:
    """A small residual network whose first stage loses its last block."""
    layers = [layer_record("stem.0", None, None, 16, 11)]
    for stage, full in (("stages.0", 16), ("stages.1", 32)):
        for block in range(BLOCKS):
            for i, conv in enumerate(("conv1", "conv2")):
                kept = SIZES[full][1 + (2 * block + 3 * i) % 7]
                kept = kept if block < KEPT_BLOCKS[stage] else 0
                name = f"{stage}.{block}.{conv}"
                layers.append(layer_record(name, stage, block, full, kept))
    return [*layers, layer_record("head", None, None, 10, 10, kind="linear")]


def result_record() -> dict[str, Any]:
    layers = layer_records()
    # a dropped layer has a width too, which does not matter
    widths = {layer["name"]: layer["kept"] or 13 for layer in layers[:-1]}

    def span(median: float) -> dict[str, float]:
        return {"median_ms": median, "low_ms": 0.98 * median, "high_ms": 1.05 * median}

    def measures(*values: float) -> dict[str, float]:
        names = ("accuracy", "top5", "macs", "params", "bytes", "latency_ms")
        return dict(zip(names, values, strict=True))

    return {
        "before": measures(0.98328, 1.0, 10130058, 271994, 1112345, 1.92),
        "after": measures(0.98051, 0.9972, 5102000, 140123, 580000, 1.41),
        "target": {"metric": "macs", "value": 5065029.0, "low": 4811778, "high": 5318280},
        "shape": {"widths": widths, "depths": KEPT_BLOCKS},
        "derived_by": "program",
        "given_up": 3.184235567990463,
        "fixed": ["head.0 and 2 more keep their width: 'head.1' mixes <channels>"],
        "residual": "pad",
        "transfer": "init+kd",
        "n": 359,
        "speed": [
            {"engine": engine, "batch": batch, "before": span(before), "after": span(after)}
            for engine, batch, before, after in (
                ("PyTorch", 1, 1.92, 1.41),
                ("PyTorch", 64, 41.2, 25.04),
                ("onnxruntime", 1, 0.612, 0.64),
            )
        ],
        "faster": "In PyTorch the small network takes 1.36 times less time for one image; "
        "in onnxruntime it is not faster.",
        "layers": layers,
        "seconds": {"teacher": 8.8, "search": 44.1, "student": 21.0},
        "environment": {
            "transformable": "0.1.0",
            "torch": "2.13.0",
            "python": "3.11.2",
            "platform": "Linux-6.1-x86_64",
            "cpu": "A processor",
            "threads": 2,
        },
        "command": "tas prune --budget 0.5",
        "model": "resnet14",
        "data": "digits",
        "seed": 7,
        "out": "runs/demo",
        "teacher": None,
    }


def softmax(logits: list[float]) -> list[float]:
    powers = [math.exp(logit) for logit in logits]
    return [power / sum(powers) for power in powers]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def training_rows(epochs: int, best: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for epoch in range(1, epochs + 1):
        fall = math.exp(-4 * epoch / epochs)
        row = {"epoch": epoch, "step": 22 * epoch, "lr": 0.1, "train_loss": 0.05 + 2.2 * fall}
        row |= {"train_accuracy": best - 0.8 * fall, "validation_loss": 0.1 + 2 * fall}
        row |= {"validation_accuracy": best - 0.7 * fall, "validation_top5": 1.0}
        rows.append({**row, "seconds": 1.0, "samples_per_second": 1437.0})
    rows[0] |= {"validation_loss": "", "validation_accuracy": "", "validation_top5": ""}
    return rows


def search_rows(epochs: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for i in range(epochs):
        part = i / max(1, epochs - 1)
        pull = math.exp(-5 * part)
        row = {"epoch": i + 1, "step": 22 * (i + 1), "weight_loss": 2 - part}
        row |= {"weight_accuracy": part, "architecture_loss": 2 - part}
        row |= {"architecture_accuracy": part, "lr": 0.03, "tau": 10 - 9.9 * part}
        row |= {"cost_loss": pull, "derived": int(5.2e6 + 4.4e6 * pull)}
        row |= {"expected": 5.1e6 + 1.5e6 * pull * math.cos(9 * part)}
        rows.append({**row, "discrepancy": 0.6 * part, "entropy": 2 - part, "seconds": 3.7})
    rows[0] |= {"architecture_loss": "", "architecture_accuracy": "", "cost_loss": ""}
    return rows


def write_search(folder: Path, result: dict[str, Any], epochs: int) -> None:
    shape = result["shape"]
    full = {layer["name"]: layer["full"] for layer in result["layers"]}
    candidates = {name: SIZES[full[name]] for name in shape["widths"]}
    candidates |= {name: list(range(1, BLOCKS + 1)) for name in shape["depths"]}
    chosen = shape["widths"] | shape["depths"]
    write_rows(folder / "metrics.csv", search_rows(epochs))
    (folder / "candidates.json").write_text(json.dumps(candidates))
    lines = []
    for epoch in range(1, epochs + 1):
        row = {
            name: softmax([-4 * epoch / epochs * abs(s - chosen[name]) / s for s in sizes])
            for name, sizes in candidates.items()
        }
        lines.append(json.dumps({"epoch": epoch, **row}) + "\n")
    (folder / "distributions.jsonl").write_text("".join(lines))


def write_run(folder: Path, *, epochs: int = 12, **changes: Any) -> Path:
    """A run folder such as tas prune writes; the changes are to its result."""
    result = result_record() | changes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(
        'budget = "0.5"\nmetric = "macs"\nsort = true\nratios = [0.3, 0.5, 1.0]\nlr = 0.05\n'
    )
    (folder / "result.json").write_text(json.dumps(result, indent=2) + "\n")
    write_search(folder / "search", result, epochs)
    write_rows(folder / "student" / "metrics.csv", training_rows(10, 0.985))
    if result["teacher"] is None:
        write_rows(folder / "teacher" / "metrics.csv", training_rows(8, 0.99))
    return folder


def write_run_without_search(folder: Path, method: str, **changes: Any) -> Path:
    """The folder of a method that has no distributions, such as fpgm."""
    write_run(folder, method=method, **changes)
    path = folder / "result.json"
    result = json.loads(path.read_text())
    for name in ("derived_by", "given_up"):
        del result[name]
    path.write_text(json.dumps(result))
    shutil.rmtree(folder / "search")
    return folder


def without_stages() -> dict[str, Any]:
    """The changes that make it a plain network."""
    layers = [
        layer_record(name, None, None, full, kept)
        for name, full, kept in (("features.0", 16, 11), ("features.3", 32, 19))
    ]
    return {
        "layers": layers,
        "shape": {"widths": {"features.0": 11, "features.3": 19}, "depths": {}},
    }


def report(folder: Path, **changes: Any) -> Node:
    path = write_report(write_run(folder, **changes))
    return parse(path.read_text(encoding="utf-8"))
