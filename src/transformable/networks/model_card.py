"""The model card of an exported network: its accuracy and cost, how it was made, how to load it."""

from collections.abc import Mapping
from typing import Any

from ..data import Info
from .blueprint import Blueprint

__all__ = ["model_card"]


def model_card(
    summary: dict[str, Any], info: Info, blueprint: Blueprint, exported: dict[str, Any]
) -> str:
    """Markdown from the result of a run, its dataset and the result of ``export``."""
    smaller = ", made smaller" if "before" in summary or "transfer" in summary else ""
    return "\n".join(
        [
            f"# {summary['model']} on {summary['data']}{smaller}",
            "",
            *_numbers(summary),
            "",
            *_origin(summary),
            "",
            "## How to load it",
            "",
            *_loading(info, blueprint, exported["files"]),
            "",
            "## What goes in and what comes out",
            "",
            *_inputs(info),
            "",
        ]
    )


def _numbers(summary: dict[str, Any]) -> list[str]:
    before, after = summary.get("before"), summary.get("after")
    if before is None or after is None:
        return [
            f"Accuracy on the test set: {summary['accuracy']:.2%} "
            f"({summary['n']:,} images), {summary['params']:,} parameters."
        ]
    rows = [
        ("accuracy", f"{before['accuracy']:.2%}", f"{after['accuracy']:.2%}"),
        *(
            (name, f"{before[key]:,}", f"{after[key]:,}")
            for name, key in (("MACs", "macs"), ("parameters", "params"), ("bytes", "bytes"))
        ),
        (
            "milliseconds an image",
            f"{before['latency_ms']:.3g}",
            f"{after['latency_ms']:.3g}",
        ),
    ]
    return [
        "| | unpruned | this network |",
        "| --- | --- | --- |",
        *(f"| {name} | {a} | {b} |" for name, a, b in rows),
        "",
        f"Accuracy is on the {summary['n']:,} images of the test set, which were looked at once. "
        f"MACs are for one image. Milliseconds are the median at batch 1 in PyTorch "
        f"{summary['environment']['torch']} on {summary['environment']['cpu']} (threads: "
        f"{summary['environment']['threads']}). {summary['faster']}",
    ]


def _origin(summary: dict[str, Any]) -> list[str]:
    if "target" not in summary:
        return []
    target = summary["target"]
    if summary["teacher"]:
        start = f"It came from the weights of {summary['teacher']}."
    elif summary["trained"]:
        start = "It came from a network that was trained before."
    else:
        start = "The unpruned network was trained first."
    return [
        "## How it was made",
        "",
        f"{start} {_method(summary.get('method', 'tas'))} "
        f"{target['low']:,} to {target['high']:,} {target['metric']}; the shape is in shape.json. "
        f"The small network was trained with transfer `{summary['transfer']}` from the unpruned "
        f"one. Seed {summary['seed']}.",
        *(["", f"    {summary['command']}"] if summary.get("command") else []),
    ]


def _method(name: str) -> str:
    sizes = {
        "tas": "The widths of its layers and the depths of its stages",
        "tas-width": "The widths of its layers",
        "tas-depth": "The depths of its stages",
    }
    if name in sizes:
        return (
            f"{sizes[name]} were learnt by Transformable Architecture Search "
            "(Dong & Yang, NeurIPS 2019) for"
        )
    return f"It was pruned by `{name}` to"


def _loading(info: Info, blueprint: Blueprint, files: Mapping[str, int]) -> list[str]:
    channels, height, width = info.input_shape
    unpruned = "" if blueprint.model else ", model=UNPRUNED"
    lines = [
        "With this package, as an ordinary PyTorch module"
        + ("" if blueprint.model else ", from the unpruned network")
        + ":",
        "",
        "```python",
        "import transformable as tas",
        "",
        f'network = tas.load("this folder"{unpruned})',
        "```",
    ]
    if "model.pt2" in files or "model.onnx" in files:
        lines += ["", "Without it, any number of images at a time:"]
    if "model.pt2" in files:
        lines += [
            "",
            "```python",
            "import torch",
            "",
            'network = torch.export.load("model.pt2").module()',
            f"logits = network(torch.zeros(1, {channels}, {height}, {width}))",
            "```",
        ]
    if "model.onnx" in files:
        lines += [
            "",
            "```python",
            "import numpy, onnxruntime",
            "",
            'network = onnxruntime.InferenceSession("model.onnx")',
            f'images = numpy.zeros((1, {channels}, {height}, {width}), "float32")',
            '[logits] = network.run(["logits"], {"images": images})',
            "```",
        ]
    return lines


def _inputs(info: Info) -> list[str]:
    channels, height, width = info.input_shape
    lines = [f"Images as float32 of N x {channels} x {height} x {width}."]
    if info.mean and info.std:
        mean, std = (", ".join(f"{v:.6g}" for v in values) for values in (info.mean, info.std))
        lines[0] += (
            f" From {'pixels of 0 to 255' if info.pixels else 'the values of the dataset'}: "
            f"subtract the mean ({mean}) of each channel and divide by its deviation ({std})."
        )
    classes = ", ".join(info.classes) if len(info.classes) <= 100 else f"{len(info.classes)} names"
    lines += ["", f"One logit for each of {info.num_classes} classes, in this order: {classes}."]
    return lines
