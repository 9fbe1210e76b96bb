"""Weights files of other people."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from transformable import models
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


class Wrapper(nn.Module):
    """All of its names begin with those that nn.DataParallel gives."""

    def __init__(self) -> None:
        super().__init__()
        self.module = nn.Linear(2, 3)


@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_network_with_a_part_called_module(tmp_path: Path, prefix: str) -> None:
    state = Wrapper().state_dict()
    torch.save({f"{prefix}{name}": value for name, value in state.items()}, tmp_path / "w.pt")
    fresh = Wrapper()
    load_weights(fresh, tmp_path / "w.pt")
    assert torch.equal(fresh.module.weight, state["module.weight"])


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
        "it has other sizes for 1.bias (7 instead of 3); --new-head starts this last layer afresh"
    )
    many = {f"extra{i}": torch.ones(1) for i in range(5)}
    assert refusal({**state, **many}) == "it has unknown extra0, extra1, extra2 and 2 more"


@pytest.mark.parametrize("name", ["net.py", "model.onnx", "model.npz"])
def test_a_file_of_another_kind(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x08\x08\x12\x07pytorch, or any other bytes")
    with pytest.raises(
        ValueError, match=rf"{name} is of a kind that is not taken as weights; give"
    ):
        read_weights(tmp_path / name)


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
    with pytest.raises(ValueError, match=r"none.pt does not exist"):
        read_weights(tmp_path / "none.pt")
    for content in ({}, [1, 2], {"lr": 0.1}):
        torch.save(content, tmp_path / "w.pt")
        with pytest.raises(ValueError, match="holds no state dict"):
            read_weights(tmp_path / "w.pt")


def test_weights_that_are_not_numbers_are_named(tmp_path: Path, net: nn.Module) -> None:
    state = net.state_dict()
    state["1.weight"][2, 1] = float("nan")
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(ValueError, match=r"w.pt has NaN in 1.weight: its training has failed"):
        load_weights(net, tmp_path / "w.pt")


def torchvision_resnet(bottleneck: bool, blocks: tuple[int, ...]) -> nn.Module:
    """A literal twin of torchvision's ResNet, with its names."""

    class Block(nn.Module):
        def __init__(self, c_in: int, planes: int, stride: int) -> None:
            super().__init__()
            c_out = planes * (4 if bottleneck else 1)
            sizes = [(c_in, planes, 1, 1), (planes, planes, 3, stride), (planes, c_out, 1, 1)]
            if not bottleneck:
                sizes = [(c_in, planes, 3, stride), (planes, planes, 3, 1)]
            self.count = len(sizes)
            for i, (a, b, kernel, step) in enumerate(sizes, start=1):
                conv = nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False)
                setattr(self, f"conv{i}", conv)
                setattr(self, f"bn{i}", nn.BatchNorm2d(b))
            self.downsample = None
            if stride != 1 or c_in != c_out:
                conv = nn.Conv2d(c_in, c_out, 1, stride, bias=False)
                self.downsample = nn.Sequential(conv, nn.BatchNorm2d(c_out))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = x
            for i in range(1, self.count + 1):
                out = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(out))
                out = out.relu() if i < self.count else out
            return (out + (x if self.downsample is None else self.downsample(x))).relu()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            c_in = 64
            for stage, count in enumerate(blocks):
                planes = 64 * 2**stage
                layers = []
                for i in range(count):
                    layers.append(Block(c_in, planes, 2 if stage and i == 0 else 1))
                    c_in = planes * (4 if bottleneck else 1)
                setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            self.fc = nn.Linear(c_in, 1000)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = nn.functional.max_pool2d(self.bn1(self.conv1(x)).relu(), 3, 2, 1)
            for stage in range(4):
                x = getattr(self, f"layer{stage + 1}")(x)
            return self.fc(x.mean((2, 3)))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    net = Net()
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):  # other than at the start, so that they count
            nn.init.uniform_(module.weight, 0.5, 1.5)
            assert module.running_mean is not None
            nn.init.normal_(module.running_mean, std=0.1)
    return net.eval()


@pytest.mark.parametrize(
    ("name", "bottleneck", "blocks"),
    [("resnet18", False, (2, 2, 2, 2)), ("resnet50", True, (3, 4, 6, 3))],
)
def test_the_weights_of_torchvision(
    tmp_path: Path, name: str, bottleneck: bool, blocks: tuple[int, ...]
) -> None:
    theirs = torchvision_resnet(bottleneck, blocks)
    torch.save(theirs.state_dict(), tmp_path / "theirs.pth")
    ours = models.build(name, num_classes=1000).eval()
    assert load_weights(ours, tmp_path / "theirs.pth") is None
    x = torch.randn(2, 3, 65, 65)
    with torch.no_grad():
        assert torch.equal(ours(x), theirs(x))


def test_a_new_head(tmp_path: Path) -> None:
    theirs = torchvision_resnet(False, (2, 2, 2, 2)).state_dict()
    torch.save(theirs, tmp_path / "theirs.pth")
    ours = models.build("resnet18", num_classes=5)
    with pytest.raises(
        ValueError,
        match=r"sizes for classifier.weight \(1000x512 instead of 5x512\), classifier.bias "
        r"\(1000 instead of 5\); --new-head starts this last layer afresh",
    ):
        load_weights(ours, tmp_path / "theirs.pth")
    head = ours.state_dict()["classifier.weight"].clone()
    assert load_weights(ours, tmp_path / "theirs.pth", new_head=True) == "classifier"
    state = ours.state_dict()
    assert torch.equal(state["classifier.weight"], head)
    assert torch.equal(state["stem.0.weight"], theirs["conv1.weight"])
    assert torch.equal(state["stages.3.0.shortcut.1.bias"], theirs["layer4.0.downsample.1.bias"])
    # only the last layer may differ
    with pytest.raises(ValueError, match="it has no stem"):
        load_weights(models.build("resnet34", 5), tmp_path / "theirs.pth", new_head=True)
