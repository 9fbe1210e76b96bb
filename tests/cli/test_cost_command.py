import json
from pathlib import Path

import pytest

import transformable as tas
from transformable.cli.entry import main


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["cost", *arguments, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    record: dict[str, object] = json.loads(out)
    return record


def test_the_layers_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    record = result(capsys, "--model", "resnet56", "--data", "cifar10")
    assert (record["macs"], record["params"]) == (125747850, 855578)
    layers = record["layers"]
    assert isinstance(layers, list)
    assert sum(layer["macs"] for layer in layers) == 125747850
    assert layers[0] == {
        "name": "stem.0", "kind": "conv", "kernel": [3, 3], "inputs": 3, "outputs": 16,
        "size": [32, 32], "macs": 442368, "params": 432,
    }  # fmt: skip


def test_a_shape_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    space = tas.Space.trace(tas.models.build("resnet20", in_channels=1), (1, 16, 16))
    shape = space.full.replace(widths={"stages.1.1.conv2": 9}, depths={"stages.0": 1})
    (tmp_path / "shape.json").write_text(shape.to_json())
    record = result(capsys, "--shape", str(tmp_path / "shape.json"))
    assert record["macs"] == tas.macs(space, shape)
    assert record["shape"] == json.loads(shape.to_json())
    assert result(capsys)["macs"] == tas.macs(space, space.full)


def test_published_networks(capsys: pytest.CaptureFixture[str]) -> None:
    assert result(capsys, "--published", "C010-ResNet20")["macs"] == 22444482
    listed = result(capsys, "--published", "list")["published"]
    assert isinstance(listed, list)
    assert len(listed) == 19
    assert listed[2]["accuracy"] == 92.88


@pytest.mark.parametrize("option", ["--image-size", "--size"])
def test_other_sizes(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = (option, "224", "--num-classes", "1000")
    assert result(capsys, "--model", "resnet18", *sizes)["macs"] == 1814074344


def test_the_table_shows_rows_and_totals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", "--data", "cifar10"]) == 0
    lines = capsys.readouterr().out.splitlines()
    [row] = [line.split() for line in lines if "stages.1.0.shortcut.1" in line]
    assert row == [
        "stages.1.0.shortcut.1",
        "1x1",
        "16",
        "32",
        "16x16",
        "131,072",
        "512",
        "0.3",
        "%",
    ]
    [total] = [line.split() for line in lines if "total" in line]
    assert total == ["total", "40,813,194", "272,282", "100.0", "%"]
    assert main(["cost", "--published", "list"]) == 0
    assert "178,071,234" in capsys.readouterr().out


ATTENTION = """
from torch import nn

def net(num_classes, in_channels):
    blocks = [nn.Sequential(nn.Conv2d(8, 8, 1), nn.Softmax(1)) for _ in range(3)]
    layers = nn.Conv2d(in_channels, 8, 1), nn.LayerNorm(16), *blocks, nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(8 * 256, num_classes))
"""


def test_like_reasons_are_shown_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(ATTENTION)
    assert main(["cost", f"--model={tmp_path}/nets.py:net"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "width:" in line]
    assert lines == [
        "2.0 and 2 more keep their width: '2.1' is over the channels",
        "0 and 1 more keep their width: '1' mixes channels",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "resnet21"], "unknown model 'resnet21'"),
        (["--data", "cifar11"], "unknown dataset 'cifar11'; did you mean 'cifar10'"),
        (["--published", "ResNet20"], "unknown published network 'ResNet20'"),
        (["--shape", "none.json"], "cannot read shape file none.json: No such file or directory"),
        (
            ["--shape", "ZERO"],
            "the width of 'stem.0' must be an integer from 1 to 1,000,000, not 0",
        ),
        (["--shape", "OTHER"], "the network has no layer 'conv9' that may change"),
        (["--shape", "a", "--published", "b"], "give --shape or --published, not both"),
        (["--published", "C010-ResNet20", "--model", "resnet56"], "has its own --model and --data"),
        (["--size", "1000000"], "does not take an input of (3, 1000000, 1000000)"),
        (
            ["--shape", "HUGE"],
            "the width of 'stem.0' must be an integer from 1 to 1,000,000, not 1000",
        ),
        (["--shape", "DEEP"], "a shape must be JSON of two levels"),
        (["--bogus"], "unknown option '--bogus'; known: model, data"),
        (["--image-size", "0"], "image_size must be at least 1, not 0"),
        (["--residual", "zero"], "--residual must be one of auto, pad, project, tied, not 'zero'"),
        (["--residuals", "pad"], "unknown option '--residuals'; did you mean '--residual'"),
    ],
)
def test_bad_input_is_one_line_and_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "ZERO").write_text('{"widths": {"stem.0": 0}}')
    (tmp_path / "OTHER").write_text('{"widths": {"conv9": 4}}')
    (tmp_path / "HUGE").write_text('{"widths": {"stem.0": 1' + 30 * "0" + "}}")
    (tmp_path / "DEEP").write_text('{"widths": ' + 100_000 * "[")
    arguments = [str(tmp_path / a) if a.isupper() else a for a in arguments]
    assert main(["cost", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("tas: error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
