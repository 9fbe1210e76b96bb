"""How to build the network whose weights a folder holds: the content of network.json."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from ..settings import Residual
from ..shape import Shape
from ..user_code import is_function_spec
from .packages import is_package_spec

__all__ = ["BLUEPRINT_FILE", "Blueprint"]

BLUEPRINT_FILE = "network.json"


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """The unpruned network of a folder; shape.json beside it holds the shape it was slimmed to.

    >>> Blueprint(model="resnet20", num_classes=10, input_shape=(3, 32, 32)).residual
    'pad'
    """

    model: str | None
    """As for ``build_network``; None if the network was made in Python."""
    num_classes: int
    input_shape: tuple[int, int, int]
    residual: Residual = "pad"
    leaf: tuple[str, ...] = ()
    """The modules that were kept whole when it was slimmed."""

    @property
    def runs_a_file(self) -> bool:
        """Whether the network is built by the code in a file.

        >>> Blueprint(model="net.py:net", num_classes=10, input_shape=(3, 32, 32)).runs_a_file
        True
        """
        own = self.model is not None and is_function_spec(self.model)
        return own and not is_package_spec(self.model or "")

    @classmethod
    def read(cls, folder: Path) -> "Blueprint":
        """Read network.json of a folder."""
        path = folder / BLUEPRINT_FILE
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
            channels, height, width = given.pop("input_shape")
            leaf = tuple(given.pop("leaf", ()))
            return cls(input_shape=(channels, height, width), leaf=leaf, **given)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} is missing or damaged; {folder} cannot be loaded") from None

    def files(self, shape: Shape | None = None) -> dict[str, str]:
        """The texts of network.json and, for a slimmed network, of shape.json."""
        texts = {BLUEPRINT_FILE: json.dumps(asdict(self), indent=2) + "\n"}
        return texts if shape is None else {**texts, "shape.json": shape.to_json() + "\n"}
