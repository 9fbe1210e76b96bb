"""How the network of a folder is built, before its weights are put in."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

__all__ = ["RECIPE", "Recipe"]

RECIPE = "network.json"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What network.json holds; shape.json beside it says to which shape it was slimmed.

    >>> Recipe(model="resnet20", num_classes=10, input_shape=(3, 32, 32)).residual
    'pad'
    """

    model: str | None
    """A name, or path.py:factory; None if it was made in Python."""
    num_classes: int
    input_shape: tuple[int, int, int]
    residual: Literal["pad", "project", "tied"] = "pad"

    @classmethod
    def read(cls, folder: Path) -> "Recipe":
        """Of a folder."""
        path = folder / RECIPE
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            channels, height, width = given.pop("input_shape")
            return cls(input_shape=(channels, height, width), **given)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} is missing or damaged; {folder} cannot be loaded") from None

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"
