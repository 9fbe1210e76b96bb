"""Shape: how wide each layer and how deep each stage of a network is."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any, Self

__all__ = ["Shape"]

LARGEST = 1_000_000


@dataclass(frozen=True)
class Shape:
    """How many channels each layer keeps, and how many leading blocks each stage keeps.

    `channels` has the indexes of the kept channels, for layers where a method has chosen them; the
    other layers keep their leading channels.

    >>> shape = Shape(widths={"conv1": 8, "conv2": 12}, depths={"stage": 2})
    >>> shape.replace(depths={"stage": 1}).to_json()
    '{"widths": {"conv1": 8, "conv2": 12}, "depths": {"stage": 1}}'
    >>> Shape.from_dict(shape.to_dict()) == Shape.from_json(shape.to_json()) == shape
    True
    """

    widths: Mapping[str, int]
    """The output channels of each layer."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """The blocks of each stage."""
    channels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The indexes of the kept channels, of layers where they are not the leading ones."""

    def __post_init__(self) -> None:
        for what in ("widths", "depths", "channels"):
            if not isinstance(getattr(self, what), Mapping):
                raise ValueError(f"{what} must map names to sizes, not be {getattr(self, what)!r}")
        for what, sizes in (("width", self.widths), ("depth", self.depths)):
            for name, size in sizes.items():
                if not _is_integer(size) or not 1 <= size <= LARGEST:
                    raise ValueError(
                        f"the {what} of {name!r} must be an integer from 1 to {LARGEST:,}, not "
                        f"{size!r}"
                    )
            # plain integers, also if they were given as numpy's
            object.__setattr__(self, f"{what}s", {name: int(size) for name, size in sizes.items()})
        for name, indexes in self.channels.items():
            if not isinstance(indexes, Iterable):
                raise ValueError(f"the channels of {name!r} must be a list, not {indexes!r}")
        channels = {name: tuple(indexes) for name, indexes in self.channels.items()}
        for name, indexes in channels.items():
            if not all(_is_integer(i) and i >= 0 for i in indexes):
                raise ValueError(f"the channels of {name!r} must be integers of 0 or more")
            indexes = channels[name] = tuple(map(int, indexes))
            if list(indexes) != sorted(set(indexes)):
                raise ValueError(f"the channels of {name!r} must be sorted, each once")
            if self.widths.get(name) != len(indexes):
                width = self.widths.get(name)
                raise ValueError(f"{len(indexes)} channels of {name!r}, but its width is {width}")
        object.__setattr__(self, "channels", channels)

    def __hash__(self) -> int:
        return hash((*self.widths.items(), *self.depths.items(), *self.channels.items()))

    def replace(
        self, widths: Mapping[str, int] | None = None, depths: Mapping[str, int] | None = None
    ) -> Self:
        """A copy with other sizes; layers with a new width keep their leading channels."""
        widths = widths or {}
        channels = {name: c for name, c in self.channels.items() if name not in widths}
        return type(self)({**self.widths, **widths}, {**self.depths, **(depths or {})}, channels)

    def to_dict(self) -> dict[str, Any]:
        """The shape as plain values for JSON; `channels` only if there are any."""
        record: dict[str, Any] = {"widths": dict(self.widths), "depths": dict(self.depths)}
        if self.channels:
            record["channels"] = {name: list(indexes) for name, indexes in self.channels.items()}
        return record

    def to_json(self) -> str:
        """The shape as a JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The shape in a JSON file."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ValueError(f"cannot read shape file {path}: {error.strerror}") from None
        except UnicodeEncodeError:  # the name of the file cannot be written here
            raise
        except ValueError as error:
            raise ValueError(f"shape file {path}: {error}") from None

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The shape in a JSON text, as `to_json` makes it."""
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"a shape must be JSON: {error}") from None
        except RecursionError:
            raise ValueError("a shape must be JSON of two levels, not of thousands") from None
        return cls.from_dict(record)

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        """The shape of a record as `to_dict` makes it."""
        if not isinstance(record, dict) or "widths" not in record:
            raise ValueError('a shape must be a JSON object with "widths" and "depths"')
        unknown = set(record) - {"widths", "depths", "channels"}
        if unknown:
            raise ValueError(f"a shape has no {min(unknown)!r}; it has widths, depths, channels")
        return cls(**record)


def _is_integer(value: Any) -> bool:
    """Whether it is a whole number, also one of numpy's, but no truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)
