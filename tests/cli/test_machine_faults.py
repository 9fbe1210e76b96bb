"""Want of memory ends in one line, with what was done saved."""

from pathlib import Path

import pytest

from support.tiny_prune import NET, prepare
from transformable.cli.entry import main
from transformable.runs.checkpoint_file import read_checkpoint

HUNGRY = """
import torch

class Hungry(Net):
    calls = 0

    def forward(self, x):
        self.calls += self.training
        if self.calls == 12:
            {fault}
        return super().forward(x)

def hungry(num_classes, in_channels):
    return Hungry(num_classes, in_channels)
"""


@pytest.mark.parametrize("fault", ["torch.empty(1 << 50)", "bytearray(1 << 60)"])
def test_out_of_memory(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(prepare(tmp_path))
    Path("net.py").write_text(NET + HUNGRY.format(fault=fault))
    train = ["train", "--model=net.py:hungry", "--data=npz:tiny.npz", "--batch-size=16"]
    assert main([*train, "--epochs=3", "--checkpoint-seconds=0", "--out=run", "--json"]) == 2
    assert capsys.readouterr().err == (
        "tas: error: out of memory; the last checkpoint is whole: run the same command again to "
        "continue when there is more, or use --accumulate or a smaller --batch-size in another "
        "--out\n"
    )
    saved = read_checkpoint(tmp_path / "run")
    assert saved is not None
    assert 0 < saved["state"]["step"] < 12
