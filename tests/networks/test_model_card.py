"""The model card says how a network was made, by whichever method."""

from dataclasses import replace
from typing import Any

import pytest

from transformable.data import Info
from transformable.networks.blueprint import Blueprint
from transformable.networks.model_card import model_card

INFO = Info(
    name="own",
    input_shape=(1, 8, 8),
    num_classes=2,
    classes=("a", "b"),
    mean=(125.0,),
    std=(50.0,),
)
BLUEPRINT = Blueprint(model="net.py:net", num_classes=2, input_shape=(1, 8, 8))
SIDE = {"accuracy": 0.9, "macs": 1000, "params": 100, "bytes": 400, "latency_ms": 0.5}
SUMMARY: dict[str, Any] = {
    "model": "net",
    "data": "own",
    "before": SIDE,
    "after": SIDE,
    "n": 40,
    "environment": {"torch": "2", "cpu": "a cpu", "threads": 1},
    "faster": "",
    "target": {"metric": "macs", "value": 500, "low": 475, "high": 1525},
    "teacher": None,
    "trained": False,
    "transfer": "init+kd",
    "seed": 3,
}
TAS = (
    "were learnt by Transformable Architecture Search (Dong & Yang, NeurIPS 2019) for 475 to 1,525"
)


def card(info: Info = INFO, **changes: Any) -> str:
    return model_card({**SUMMARY, **changes}, info, BLUEPRINT, {"files": {}})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, f"The widths of its layers and the depths of its stages {TAS} macs"),
        ({"method": "tas"}, f"The widths of its layers and the depths of its stages {TAS} macs"),
        ({"shape": {"depths": {}}}, f"trained first. The widths of its layers {TAS} macs"),
        ({"method": "tas-width"}, f"trained first. The widths of its layers {TAS} macs"),
        ({"method": "tas-depth"}, f"The depths of its stages {TAS} macs"),
        ({"method": "fpgm"}, "trained first. It was pruned by `fpgm` to 475 to 1,525 macs"),
        ({"method": "own.py:mine"}, "It was pruned by `own.py:mine` to 475 to 1,525 macs"),
    ],
)
def test_the_method_is_named(changes: dict[str, Any], sentence: str) -> None:
    text = card(**changes)
    assert sentence in text
    assert ("Transformable Architecture Search" in text) == (TAS in sentence)


def test_what_the_milliseconds_are() -> None:
    assert "Milliseconds are the median at batch 1 in PyTorch 2 on a cpu (threads: 1)." in card()
    conditions = "onnxruntime at batch 8, 2 threads, on theirs"
    target = {**SUMMARY["target"], "metric": "latency", "conditions": conditions}
    counted = f"Milliseconds are as the budget counts them, in {conditions}"
    assert f"{counted}, by a table of times and not measured." in card(target=target)
    assert f"{counted}." in card(target=target, timed={"ms": 1.0})


def test_the_inputs_are_described() -> None:
    assert (
        "Images as float32 of N x 1 x 8 x 8. From pixels of 0 to 255: subtract the mean (125) of "
        "each channel and divide by its deviation (50)."
    ) in card()
    floats = card(replace(INFO, mean=(0.5,), std=(0.25,), pixels=False))
    assert "From the values of the dataset: subtract the mean (0.5) of each channel" in floats
    plain = card(replace(INFO, mean=(), std=(), pixels=False))
    assert "Images as float32 of N x 1 x 8 x 8.\n" in plain


def test_names_are_escaped() -> None:
    evil = replace(INFO, classes=("<script>alert(1)</script>", "a\n# heading"))
    text = card(evil, model="<img src=x>|", teacher="<b>", command="tas <i>\n# no heading")
    for tag in ("<script", "<img", "<b", "<i"):
        assert tag not in text
    assert "&lt;img src=x>\\| on own" in text
    assert "\n# heading" not in text
    assert "\n# no heading" not in text
