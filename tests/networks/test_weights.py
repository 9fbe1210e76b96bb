"""Weights files and networks of other people."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from transformable.networks.build import build, check_outputs
from transformable.networks.weights import load_weights, read_weights


@pytest.fixture
def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(2, 3))


def test_every_kind_of_file(tmp_path: Path, net: nn.Module) -> None:
    state = net.state_dict()
    save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "b.pt")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "c.pth")
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "d.th")
    torch.save({"model": state, "optimizer": {"lr": 0.1}}, tmp_path / "e.pt")
    torch.save(state, tmp_path / "f.tar", _use_new_zipfile_serialization=False)
    for path in sorted(tmp_path.iterdir()):
        fresh = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Linear(2, 3))
        load_weights(fresh, path)
        for name, value in fresh.state_dict().items():
            assert torch.equal(value, state[name]), (path, name)


def test_a_file_without_batch_counts_is_taken(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    old = {n: t + 1 for n, t in model.state_dict().items() if "num_batches" not in n}
    torch.save({"state_dict": {f"module.{n}": t for n, t in old.items()}}, tmp_path / "old.th")
    load_weights(model, tmp_path / "old.th")
    assert all(torch.equal(model.state_dict()[n], t) for n, t in old.items())


def test_what_does_not_match_is_named(tmp_path: Path, net: nn.Module) -> None:
    state = net.state_dict()

    def refusal(changed: dict[str, torch.Tensor]) -> str:
        torch.save(changed, tmp_path / "w.pt")
        with pytest.raises(ValueError, match="is not for this network") as caught:
            load_weights(net, tmp_path / "w.pt")
        return str(caught.value).split(": ", 1)[1]

    assert refusal({k: v for k, v in state.items() if k != "0.bias"}) == "it has no 0.bias"
    assert refusal({"1.bias": state["1.bias"]}) == "it has no 0.weight, 0.bias, 1.weight"
    assert refusal({**state, "extra": torch.ones(1)}) == "it has unknown extra"
    assert refusal({**state, "1.bias": torch.ones(7)}) == (
        "it has other sizes for 1.bias (7 instead of 3)"
    )
    many = {f"extra{i}": torch.ones(1) for i in range(5)}
    assert refusal({**state, **many}) == "it has unknown extra0, extra1, extra2 and 2 more"


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, ("exit 0",)


def test_a_pickle_that_imports_is_refused(tmp_path: Path) -> None:
    torch.save({"state_dict": Evil()}, tmp_path / "zip.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Evil(), protocol=2))
    for name in ("zip.pt", "plain.pt"):
        with pytest.raises(ValueError, match=r"is refused: it would import posix.system") as caught:
            read_weights(tmp_path / name)
        assert "\n" not in str(caught.value)


def test_a_pickle_that_torch_does_not_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "new.pt").write_bytes(pickle.dumps(Evil(), protocol=4))
    with pytest.raises(ValueError, match=r"new.pt is damaged or not plain tensors"):
        read_weights(tmp_path / "new.pt")


def test_a_whole_module_is_refused(tmp_path: Path, net: nn.Module) -> None:
    torch.save(net, tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"is refused: it would import torch\.nn"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize("keep", [0, 1, 100, 900])
def test_truncated_files(tmp_path: Path, net: nn.Module, keep: int) -> None:
    save_file(net.state_dict(), tmp_path / "a.safetensors")
    torch.save(net.state_dict(), tmp_path / "b.pt")
    for name in ("a.safetensors", "b.pt"):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[: min(keep, path.stat().st_size - 1)])
        with pytest.raises(ValueError, match="is damaged or not") as caught:
            read_weights(path)
        assert "\n" not in str(caught.value)


def test_files_without_weights(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.pt is not there"):
        read_weights(tmp_path / "none.pt")
    for content in ({}, [1, 2], {"lr": 0.1}):
        torch.save(content, tmp_path / "w.pt")
        with pytest.raises(ValueError, match="holds no state dict"):
            read_weights(tmp_path / "w.pt")


FACTORIES = """
from torch import nn

def all_given(num_classes, in_channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(in_channels * 4, num_classes))

def classes_only(num_classes):
    return nn.Linear(4, num_classes)

def none_given(width=6):
    return nn.Linear(4, width)

def anything(**given):
    return nn.Linear(given["in_channels"], given["num_classes"])

def breaks():
    raise KeyError("oh\\nno")

def number():
    return 3
"""


@pytest.fixture
def factories(tmp_path: Path) -> str:
    path = tmp_path / "nets.py"
    path.write_text(FACTORIES)
    return str(path)


def test_factories_get_what_they_take(factories: str) -> None:
    def weights(name: str) -> list[tuple[int, ...]]:
        model = build(f"{factories}:{name}", num_classes=5, in_channels=2)
        return [tuple(p.shape) for p in model.parameters()]

    assert weights("all_given") == [(5, 8), (5,)]
    assert weights("classes_only") == [(5, 4), (5,)]
    assert weights("none_given") == [(6, 4), (6,)]
    assert weights("anything") == [(5, 2), (5,)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}:nothing", "has no function 'nothing'; it has all_given, classes_only"),
        ("{}:breaks", "failed: KeyError: 'oh\\nno'"),
        ("{}:number", "gave int; it must return a torch.nn.Module"),
        ("{}", "needs the name of a function"),
        ("nowhere.py:net", "file nowhere.py is not there"),
        ("folder:net", "must be the name of a network or path.py:FUNCTION"),
        ("resnet21", "unknown model 'resnet21'; did you mean 'resnet"),
    ],
)
def test_models_that_cannot_be(factories: str, spec: str, message: str) -> None:
    with pytest.raises(ValueError, match="model") as caught:
        build(spec.format(factories), num_classes=5, in_channels=2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["def net():\n    raise SystemExit(0)", "import sys; sys.exit(5)"])
def test_a_file_that_wants_to_exit(tmp_path: Path, text: str) -> None:
    (tmp_path / "leave.py").write_text(text)
    with pytest.raises(ValueError, match="failed: SystemExit"):
        build(f"{tmp_path / 'leave.py'}:net", num_classes=2, in_channels=1)


def test_a_file_that_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name")
    with pytest.raises(ValueError, match=r"bad.py failed: ModuleNotFoundError: No module named"):
        build(f"{tmp_path}/bad.py:net", num_classes=5, in_channels=2)
    (tmp_path / "bad.py").write_text("def net(:")
    with pytest.raises(ValueError, match=r"bad.py failed: SyntaxError: "):
        build(f"{tmp_path}/bad.py:net", num_classes=5, in_channels=2)


class Two(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x, 2


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Flatten(), nn.Linear(4, 10)), "gives 10 outputs, but x has 100 classes"),
        (nn.Conv2d(1, 100, 2), "gives an output of (1, 100, 1, 1) for one image of x, instead of"),
        (nn.Conv2d(3, 100, 2), "cannot take x's images of 1x2x2: RuntimeError: Given groups=1"),
        (Two(), "gives tuple instead of a tensor of logits"),
    ],
)
def test_outputs_that_are_not_the_classes(model: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match="the model") as caught:
        check_outputs(model, (1, 2, 2), 100, "x")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert model.training
