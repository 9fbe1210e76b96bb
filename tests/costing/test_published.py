"""Every network that was published, and every unpruned one: exact, three ways."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pytest

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from transformable.costing.published import CLASSES, find, published

RECORD = json.loads(files("transformable.costing").joinpath("published.json").read_text())
BLOCKS = {
    "resnet20": (3,) * 3, "resnet32": (5,) * 3, "resnet56": (9,) * 3, "resnet110": (18,) * 3,
    "resnet164": (18,) * 3, "resnet18": (2,) * 4, "resnet50": (3, 4, 6, 3),
}  # fmt: skip
PLANES = {3: (16, 32, 64), 4: (64, 128, 256, 512)}


def by_hand(
    network: str, dataset: str, widths: Sequence[int], depths: Sequence[int], derived: bool
) -> tuple[int, int]:
    """MACs and parameters from the paper's description alone."""
    imagenet = dataset == "imagenet"
    bottleneck = network in ("resnet164", "resnet50")
    kernels = (1, 3, 1) if bottleneck else (3, 3)
    left = list(widths)
    width, size = left.pop(0), 112 if imagenet else 32
    macs = 3 * width * (49 if imagenet else 9) * size**2
    params = 3 * width * (49 if imagenet else 9) + 2 * width
    size = 56 if imagenet else 32
    for stage, blocks in enumerate(BLOCKS[network]):
        for block in range(blocks):
            sizes = [left.pop(0) for _ in kernels]
            if block >= depths[stage]:
                continue
            stride = 2 if stage > 0 and block == 0 else 1
            c_in = width
            for i, (kernel, c_out) in enumerate(zip(kernels, sizes, strict=True)):
                if stride == 2 and i == (1 if bottleneck else 0):
                    size //= 2
                macs += c_in * c_out * kernel**2 * size**2
                params += c_in * c_out * kernel**2 + 2 * c_out
                c_in = c_out
            if stride == 2 or width != c_in:
                norm = imagenet or (stride == 1 and not (bottleneck and derived))
                macs += width * c_in * size**2
                params += width * c_in + norm * 2 * c_in
            width = c_in
    classes = CLASSES[dataset]
    return macs + (width + 1) * classes, params + (width + 1) * classes


def full_widths(network: str) -> list[int]:
    blocks = BLOCKS[network]
    planes = PLANES[len(blocks)]
    widths = [planes[0]]
    for n, p in zip(blocks, planes, strict=True):
        widths += n * ([p, p, 4 * p] if network in ("resnet164", "resnet50") else [p, p])
    return widths


ROWS = [(row["network"] + " " + row["dataset"], row) for row in RECORD["unpruned"]]
ROWS += [(row["id"], row) for row in RECORD["networks"]]


def test_there_are_31_rows() -> None:
    assert len(ROWS) == 31


@pytest.mark.parametrize("row", [row for _, row in ROWS], ids=[name for name, _ in ROWS])
def test_costs_are_exact_three_ways(row: dict[str, Any]) -> None:
    expected = row["macs"], row["params"]
    size = 224 if row["dataset"] == "imagenet" else 32
    model = tas.models.build(row["network"], CLASSES[row["dataset"]])
    space = tas.Space.trace(model, (3, size, size), residual="project")
    if "widths" in row:
        shape = find(row["id"]).shape(space)
    else:
        shape = space.full
        assert list(shape.widths.values()) == full_widths(row["network"])
    sizes = list(shape.widths.values()), list(shape.depths.values())
    assert by_hand(row["network"], row["dataset"], *sizes, "widths" in row) == expected
    assert (tas.macs(space, shape), tas.params(space, shape)) == expected
    small = tas.slim(model, space, shape)
    assert (counted_macs(small, (3, size, size)), counted_params(small)) == expected


def test_names_need_not_be_whole_and_are_checked() -> None:
    assert find("neurips2019/C100-ResNet56") == find("C100-ResNet56")
    assert [network.id for network in published()] == [row["id"] for row in RECORD["networks"]]
    with pytest.raises(
        ValueError, match="unknown published network 'C010-Resnet20'; did you mean 'C010-ResNet20'"
    ):
        find("C010-Resnet20")
