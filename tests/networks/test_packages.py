"""Networks of timm and torchvision, played by small packages of the same names."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from transformable.cli.entry import main
from transformable.networks.build import build_network
from transformable.networks.packages import first_weights

NET = """
from types import SimpleNamespace

import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, num_classes=1000, in_chans=3):
        super().__init__()
        self.stem = nn.Conv2d(in_chans, 4, 3, padding=1)
        self.body = nn.Conv2d(4, 4, 1)
        self.head = nn.Linear(4, num_classes)

    def forward(self, x):
        return self.head(self.body(self.stem(x).relu()).mean((2, 3)))
"""

TIMM = f"""{NET}
def list_models():
    return ["tiny_net", "broken_net"]

def get_pretrained_cfg(name):
    return SimpleNamespace(url="https://host/tiny-12.pth?download=1", hf_hub_id="timm/tiny")

def create_model(name, pretrained=False, pretrained_cfg_overlay=None, **given):
    assert name.startswith("tiny_net"), "it is broken"
    net = Net(**given)
    if pretrained:
        state = torch.load(pretrained_cfg_overlay["file"])
        net.body.load_state_dict({{n: state[f"body.{{n}}"] for n in ("weight", "bias")}})
    return net
"""

TORCHVISION = f"""{NET}
import sys
models = sys.modules[__name__]

def list_models(module):
    assert module is models
    return ["tiny_net", "two_heads"]

def get_model_weights(name):
    return SimpleNamespace(DEFAULT=SimpleNamespace(url="https://host/vision-34.pth"))

def get_model(name, weights, num_classes, aux_logits=True):
    net = Net(num_classes)
    net.aux_logits = aux_logits and name == "two_heads"
    return net
"""

HUB = """
import os
HF_HUB_CACHE = os.environ["HUB"]
"""


SNAPSHOT = "hub/models--timm--tiny/snapshots/12ab"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the packages, which also holds the two caches."""
    texts = {"timm": TIMM, "torchvision": TORCHVISION, "huggingface_hub": ""}
    texts |= {"huggingface_hub.constants": HUB}
    for name, text in texts.items():
        file = tmp_path / name.replace(".", "/") / "__init__.py"
        file.parent.mkdir()
        file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("HUB", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    (tmp_path / "torch" / "hub" / "checkpoints").mkdir(parents=True)
    (tmp_path / SNAPSHOT).mkdir(parents=True)
    (tmp_path / SNAPSHOT).parent.parent.joinpath("refs").mkdir()
    (tmp_path / SNAPSHOT).parent.parent.joinpath("refs", "main").write_text("12ab\n")
    before = {name: sys.modules.pop(name, None) for name in texts}
    yield tmp_path
    for name, module in before.items():
        sys.modules.pop(name, None)
        sys.modules.update({name: module} if module is not None else {})


def pretrained(path: Path) -> nn.Module:
    """A network like those of the packages, trained for 1000 classes, and its file."""
    torch.manual_seed(7)
    net = nn.Sequential()
    net.add_module("stem", nn.Conv2d(3, 4, 3))
    net.add_module("body", nn.Conv2d(4, 4, 1))
    net.add_module("head", nn.Linear(4, 1000))
    torch.save(net.state_dict(), path)
    return net


@pytest.mark.parametrize("spec", ["timm:tiny_net", "timm:tiny_net.in1k", "torchvision:tiny_net"])
def test_head_and_input_are_those_of_the_dataset(packages: Path, spec: str) -> None:
    net = build_network(spec, num_classes=5, in_channels=2)
    assert net(torch.zeros(1, 2, 8, 8)).shape == (1, 5)
    start = f"{spec} starts from new weights: its pretrained ones are not in the cache; "
    name = spec.partition(":")[2]
    if spec.startswith("timm"):
        start += f"timm.create_model({name!r}, pretrained=True) would download them"
    else:
        start += f"torchvision.models.get_model({name!r}, weights='DEFAULT') would download them"
    assert first_weights(spec) == start


def test_timm_weights_of_the_cache_are_taken(packages: Path) -> None:
    for file in (
        packages / "torch" / "hub" / "checkpoints" / "tiny-12.pth",
        packages / SNAPSHOT / "pytorch_model.bin",  # asked first
    ):
        theirs = pretrained(file)
        assert first_weights("timm:tiny_net") == f"timm:tiny_net starts from {file}"
        net = build_network("timm:tiny_net", num_classes=5, in_channels=3)
        assert torch.equal(net.state_dict()["body.weight"], theirs.state_dict()["body.weight"])


def test_torchvision_weights_of_the_cache_are_taken_where_they_fit(packages: Path) -> None:
    file = packages / "torch" / "hub" / "checkpoints" / "vision-34.pth"
    theirs = pretrained(file).state_dict()
    assert first_weights("torchvision:tiny_net") == f"torchvision:tiny_net starts from {file}"
    for channels in (3, 2):
        net = build_network("torchvision:tiny_net", num_classes=5, in_channels=channels)
        own = net.state_dict()
        same = {name for name in own if torch.equal(own[name], theirs[name])}
        fitting = {"stem.weight"} if channels == 3 else set()
        assert same == fitting | {"stem.bias", "body.weight", "body.bias"}
        assert net.get_submodule("stem").padding == (1, 1)


def test_a_second_head_is_left_out(packages: Path) -> None:
    net = build_network("torchvision:two_heads", num_classes=5, in_channels=3)
    assert not net.aux_logits


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("timm:tiny_nett", "timm has no model 'tiny_nett'; did you mean 'tiny_net'?"),
        ("timm:", "timm has no model ''; known: tiny_net, broken_net"),
        ("timm:broken_net", "model 'timm:broken_net' failed: AssertionError: it is broken"),
        ("torchvision:x", "torchvision has no model 'x'; known: tiny_net, two_heads"),
    ],
)
def test_what_is_not_there_is_one_line_and_2(
    packages: Path, capsys: pytest.CaptureFixture[str], spec: str, message: str
) -> None:
    assert main(["cost", "--model", spec]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"tas: error: {message}")
    assert err.count("\n") == 1


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_packages_that_cannot_be_imported(
    packages: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    package: str,
) -> None:
    (packages / package / "__init__.py").write_text("import not_installed_either")
    assert main(["cost", "--model", f"{package}:tiny_net"]) == 2
    error = capsys.readouterr().err
    assert f"{package} cannot be imported: ModuleNotFoundError: No module named 'not_inst" in error
    monkeypatch.setattr(sys, "path", [])  # nothing is installed
    assert main(["cost", "--model", f"{package}:tiny_net"]) == 2
    error = capsys.readouterr().err
    assert f"needs the package {package}, which is not installed: pip install {package}" in error


def test_the_whole_job(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "--model=timm:tiny_net", "--epochs=1", "--batch-size=500", "--json"]
    assert main([*command, "--out", str(packages / "run")]) == 0
    out, err = capsys.readouterr()
    assert "tas: timm:tiny_net starts from new weights: its pretrained ones are not in" in err
    accuracy = json.loads(out)["accuracy"]
    assert json.loads((packages / "run" / "network.json").read_text())["model"] == "timm:tiny_net"
    assert main(["evaluate", str(packages / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == accuracy
