"""Networks built by functions in a user's file."""

from pathlib import Path

import pytest

from transformable.networks.build import build_network

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
        model = build_network(f"{factories}:{name}", num_classes=5, in_channels=2)
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
        ("{}:number", "returned int; it must return a torch.nn.Module"),
        ("{}", "needs the name of a function"),
        ("nowhere.py:net", "file nowhere.py does not exist"),
        ("folder:net", "must be the name of a model or path.py:FUNCTION"),
        ("resnet21", "unknown model 'resnet21'; did you mean 'resnet"),
    ],
)
def test_models_that_cannot_be(factories: str, spec: str, message: str) -> None:
    with pytest.raises(ValueError, match="model") as caught:
        build_network(spec.format(factories), num_classes=5, in_channels=2)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
