"""Pickles that make a marker file when they are loaded the usual way."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path


class Call:
    """Its pickle calls a function."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return self.function, self.arguments


class Buffer(bytearray):
    """Its pickle of protocol 5 calls eval with text that travels as a buffer."""

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[..., object], tuple[object, ...]]:
        return eval, (Call(str, pickle.PickleBuffer(bytes(self)), "ascii"),)


def hostile(marker: Path) -> dict[str, tuple[object, int]]:
    """Contents and the protocols they are pickled with; each makes the marker."""
    code = f"open({str(marker)!r}, 'w').close()"
    return {
        "os.system": (Call(os.system, f"touch {marker}"), 2),
        "builtins.eval": (Call(eval, code), 4),
        "nested": ({"state_dict": {"weight": [Call(Call, Call(eval, code))]}}, 2),
        "buffer": (Buffer(code.encode()), 5),
    }
