"""Networks of ten families through the whole job, and their exported files in onnxruntime."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

import transformable as tas
from support.networks import NETWORKS
from support.searches import alternating_search
from transformable.data import from_tensors
from transformable.pruning import conclude

TEN = (
    *("padded resnet", "densenet", "squeeze-and-excite", "pre-activation", "vgg"),
    *("grouped convolutions", "norms with activations", "standardised convolutions"),
    *("permuted axes", "channel shuffles"),
)


@pytest.mark.parametrize("name", TEN)
def test_pruned_and_exported(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # writing the unpruned network as well, to time it, takes longer than all else here
    monkeypatch.setattr(conclude, "_onnx_files", lambda *_: {})
    torch.manual_seed(0)
    make, input_shape = NETWORKS[name]
    images = torch.randn(40, *input_shape), torch.arange(40) % 10
    data = from_tensors(images, images, validation=0)
    pruned = tas.prune(
        make(),
        data,
        budget=0.6,
        tolerance=0.1,
        training=tas.Training(epochs=1, batch_size=20),
        searching=alternating_search(epochs=1, batch_size=20, select=4, align="pad"),
        distilling=tas.Distilling(epochs=1, batch_size=20),
        out=tmp_path / "run",
    )
    before, after = pruned.summary["before"], pruned.summary["after"]
    assert 0.54 <= after["macs"] / before["macs"] <= 0.66
    assert after["params"] == sum(p.numel() for p in pruned.model.parameters())
    session = onnxruntime.InferenceSession(
        str(tmp_path / "run" / "export" / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    x = next(data.test.ordered(7))[0]
    with torch.no_grad():
        expected = pruned.model(x)
    [logits] = session.run(["logits"], {"images": x.contiguous().numpy()})
    np.testing.assert_allclose(logits, expected.numpy(), rtol=1e-3, atol=1e-4)
