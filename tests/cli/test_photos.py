"""Photos in a folder as a newcomer brings them: other weights, other classes, another size."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from transformable import data, models
from transformable.cli.entry import main
from transformable.cli.outcome import Outcome

TINY = """
from torch import nn

def net(num_classes):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes),
    )
"""
SECTIONS = ("train", "search", "student")
COMMON = ["--model=nets.py:net", "--data=folder:photos", "--image-size=24", "--workers=0"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with photos of two classes, and a weights file for seven."""
    random = np.random.default_rng(0)
    for name in ("cats", "dogs"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(10):
            pixels = random.integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    (tmp_path / "nets.py").write_text(TINY)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    exec(TINY, namespace)
    torch.manual_seed(1)
    state = namespace["net"](7).state_dict()  # type: ignore[operator]
    torch.save(state, tmp_path / "seven.pth")
    return tmp_path


def test_the_size_of_the_images(here: Path) -> None:
    assert data.info("folder:photos", image_size=24).input_shape == (3, 24, 24)
    dataset = data.load("folder:photos", image_size=24, workers=0)
    assert dataset.info.input_shape == (3, 24, 24)
    assert next(dataset.train.shuffled(2, seed=0, epoch=0))[0].shape == (2, 3, 24, 24)
    # a side of 24 is cut out of 27, as 224 is out of 256
    path = dataset.test.subset(torch.tensor([0])).paths[0]  # type: ignore[attr-defined]
    whole = np.array(Image.open(path).resize((27, 27), Image.Resampling.BILINEAR))
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (dataset.info.mean, dataset.info.std))
    seen = next(dataset.test.ordered(1))[0][0] * std
    pixels = (seen + mean).round().permute(1, 2, 0).numpy()
    # torch resizes as Pillow does, to one of 255 levels
    assert np.abs(pixels - whole[1:25, 1:25]).max() <= 1


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digits", "image size 24 is for folder:PATH, not for digits"),
        ("cifar10", "image size 24 is for folder:PATH, not for cifar10; use cifar10:SIZE"),
    ],
)
def test_other_datasets_have_their_own_size(spec: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        data.info(spec, image_size=24)


def test_training_goes_on_from_a_file_with_other_classes(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = ["train", *COMMON, "--epochs=1", "--batch-size=4", "--lr=1e-12", "--momentum=0"]
    train += ["--weight-decay=0", "--weights=seven.pth", "--out=run", "--json"]
    assert main(train) == 2
    assert "5.bias (7 instead of 2); --new-head starts this last" in capsys.readouterr().err
    assert main([*train, "--new-head"]) == 0
    (out, err) = capsys.readouterr()
    assert err == (
        "the last layer (5) starts fresh, everything else is from seven.pth; "
        "the network is trained from there\n"
    )
    assert json.loads(out)["num_classes"] == 2
    trained = torch.load("seven.pth", weights_only=True)
    from safetensors.torch import load_file

    kept = load_file("run/model.safetensors")
    assert torch.allclose(kept["0.weight"], trained["0.weight"], atol=1e-6)
    assert kept["5.weight"].shape == (2, 8)
    assert main(["evaluate", "run", "--trust", "--json", "--workers=0"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["accuracy"] == json.loads(out)["accuracy"]


def test_a_teacher_with_a_new_head_is_trained(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prune = ["prune", *COMMON, "--batch-size=4", "--epochs=1", "--teacher-epochs=1", "--json"]
    prune += ["--search-epochs=1", "--no-export", "--teacher=seven.pth", "--new-head", "--out=run"]
    # in bfloat16, and each batch in two parts
    prune += ["--precision=bf16-mixed", *(f"--{part}.accumulate=2" for part in SECTIONS)]
    assert main(prune) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["trained"] is False
    assert result["seconds"]["teacher"] > 0
    # the budget holds, whatever was learnt from noise
    assert result["target"]["low"] <= result["after"]["macs"] <= result["target"]["high"]


@pytest.mark.parametrize(
    ("command", "option"), [("train", "weights"), ("search", "weights"), ("prune", "teacher")]
)
def test_a_new_head_needs_weights(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, option: str
) -> None:
    assert main([command, *COMMON, "--new-head"]) == 2
    words = f"--new-head replaces the last layer of given weights: give --{option}"
    assert capsys.readouterr().err == f"tas: error: {words}\n"


def test_an_accuracy_of_chance_is_remarked_on(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    result = {"accuracy": 4 / 24, "top5": 1.0, "n": 24, "num_classes": 5}
    Console(width=100).print(Outcome(title="", result=result).show())
    (out, _) = capsys.readouterr()
    assert (
        "16.67% on 24 images is not clearly better than guessing one of 5 classes (20.00%)." in out
    )
    assert "top5" not in out
    better = {"accuracy": 0.5, "top5": 0.9, "n": 24, "num_classes": 10}
    Console(width=100).print(Outcome(title="", result=better).show())
    (out, _) = capsys.readouterr()
    assert "guessing" not in out
    assert "90.00%" in out


def test_the_networks_for_photos_are_those_of_torchvision() -> None:
    convs = dict(models.build("resnet18").named_modules())
    assert convs["stages.1.0.shortcut.0"].stride == (2, 2)
