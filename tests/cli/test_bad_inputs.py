"""Every bad input ends in exit code 2 and one line that names it."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from support.bad_inputs import CASES
from transformable.cli.entry import main

NETS = """
from torch import nn

def ten(num_classes, in_channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

def text():
    return "a network"

def fails():
    raise RuntimeError("no")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("bad")
    texts = {
        "nets.py": NETS,
        "syntax.py": "def net(:\n",
        "broken.toml": "a = = 1\n",
        "unknown.toml": "epoch_s = 3\n",
        "typed.toml": 'json = "yes"\n',
        "list.json": "[1]",
        "zero.json": json.dumps({"widths": {"stem.0": 0}, "depths": {}}),
        "stranger.json": json.dumps({"widths": {"stranger": 4}, "depths": {}}),
    }
    for name, text in texts.items():
        (here / name).write_text(text)
    (here / "latin.toml").write_bytes(b'model = "\xfc"\n')
    images, labels = np.zeros((60, 8, 8), np.uint8), np.arange(60) % 3
    arrays: dict[str, Any] = {
        "x_train": images,
        "y_train": labels,
        "x_test": images,
        "y_test": labels,
    }
    np.savez(here / "tiny.npz", **arrays)
    content = bytearray((here / "tiny.npz").read_bytes())
    (here / "torn.npz").write_bytes(content[:500])
    content[1000] ^= 1  # a pixel
    (here / "flipped.npz").write_bytes(content)
    np.savez(here / "keys.npz", x=images)
    objects = {**arrays, "x_train": np.array([{}] * 60)}
    np.savez(here / "objects.npz", **objects)
    (here / "evil.pt").write_bytes(b"cposix\nsystem\n(S'true'\ntR.")
    torch.save({"fc.bias": torch.ones(10)}, here / "other.pt")
    (here / "empty").mkdir()
    (here / "runs").mkdir()  # where run folders go, and stays
    (here / "broken").mkdir()
    for name in ("config.toml", "model.safetensors"):
        (here / "broken" / name).write_text("\x00")
    return here


def test_there_are_two_hundred() -> None:
    assert len({line for line, _ in CASES}) == len(CASES) >= 200


@pytest.mark.parametrize(("line", "words"), CASES, ids=lambda text: str(text)[:60])
def test_one_line_and_2(
    folder: Path,
    line: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    code = main(shlex.split(line))
    out, err = capsys.readouterr()
    if not line:  # no command is a question, not an error
        assert (code, err) == (0, "")
        assert words in out
        return
    assert code == 2, out
    assert out == ""
    assert err.startswith("tas: error: ")
    assert err.count("\n") == 1, err
    assert words in err
    assert sorted(folder.rglob("*")) == before


def test_numbers_with_commas_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in range(76, 84):  # some of which break the line behind the comma
        monkeypatch.setenv("COLUMNS", str(columns))
        assert main(["search", "--ratios", "0.25,0.5"]) == 2
        assert "separate them by spaces" in capsys.readouterr().err, columns
