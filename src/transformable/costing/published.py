"""The networks that the paper's authors published, with their exact costs."""

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..shape import Shape
from ..spelling import nearest
from ..tracing.space import Space

__all__ = ["Published", "find", "published"]

CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published network: its sizes in order of execution, its cost, its accuracy in the paper.

    The accuracy is in percent, with distillation if the paper has several; None if it has none.
    """

    id: str
    network: str
    dataset: str
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    macs: int
    params: int
    accuracy: float | None

    @property
    def num_classes(self) -> int:
        return CLASSES[self.dataset]

    @property
    def input_shape(self) -> tuple[int, int, int]:
        return (3, 224, 224) if self.dataset == "imagenet" else (3, 32, 32)

    def shape(self, space: Space) -> Shape:
        """The shape of this network in the space of its unpruned network."""
        return Shape(
            dict(zip(space.widths, self.widths, strict=True)),
            dict(zip(space.depths, self.depths, strict=True)),
        )


def published() -> list[Published]:
    """All published networks.

    >>> len(published()), published()[2].id, published()[2].macs
    (19, 'neurips2019/C010-ResNet20', 22444482)
    """
    text = files("transformable.costing").joinpath("published.json").read_text()
    return [
        Published(
            **{key: row[key] for key in ("id", "network", "dataset", "macs", "params")},
            widths=tuple(row["widths"]),
            depths=tuple(row["depths"]),
            accuracy=_accuracy(row.get("paper") or {}),
        )
        for row in json.loads(text)["networks"]
    ]


def find(name: str) -> Published:
    """The published network of this id; the part after the slash is enough.

    >>> find("C010-ResNet56").depths
    (5, 5, 5)
    """
    networks = published()
    for network in networks:
        if name in (network.id, network.id.rpartition("/")[2]):
            return network
    ids = [network.id.rpartition("/")[2] for network in networks]
    raise ValueError(f"unknown published network {name!r}; {nearest(name, ids)}")


def _accuracy(paper: dict[str, Any]) -> float | None:
    accuracy = paper.get("acc_pct")
    return accuracy["kd"] if isinstance(accuracy, dict) else accuracy
