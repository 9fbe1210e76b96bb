"""Read the pickled CIFAR files without running any code that they contain.

A pickle is a program. This reader admits plain values and the few names with which numpy pickles an
array, and replaces those by classes of its own, so that a file can neither import anything nor set
the internal state of a numpy object.
"""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["read"]

_DTYPES = ("u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8")


class _Dtype:
    def __init__(self, name: object, *_: object) -> None:
        text = name.decode("latin1") if isinstance(name, bytes) else name
        if not isinstance(text, str) or text.lstrip("|<=") not in _DTYPES:
            raise pickle.UnpicklingError(f"an array of {text!r} is not allowed, only integers")
        self.dtype = np.dtype(text.lstrip("|="))

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if state[1] not in ("|", "<", b"|", b"<"):
            raise pickle.UnpicklingError(f"byte order {state[1]!r} is not allowed")


class _Array:
    """Created empty, as by numpy's ``_reconstruct``; ``__setstate__`` fills it."""

    array: NDArray[Any]

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, state: tuple[Any, tuple[int, ...], _Dtype, bool, Any]) -> None:
        _, shape, dtype, fortran, content = state
        array = np.frombuffer(content, dtype=dtype.dtype)
        self.array = array.reshape(shape, order="F" if fortran else "C").copy()


def _from_buffer(content: Any, dtype: _Dtype, shape: tuple[int, ...], order: str) -> _Array:
    made = _Array()
    made.__setstate__((None, shape, dtype, order == "F", content))
    return made


def _encode(text: str, encoding: str = "latin1") -> bytes:
    # bytes in the old protocols; another codec would be imported
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding {encoding!r} is not allowed")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Callable[..., object]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _from_buffer,
    ("numpy._core.numeric", "_frombuffer"): _from_buffer,
    ("_codecs", "encode"): _encode,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., object]:
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(
                f"it would import {module}.{name}; only arrays and plain values are allowed"
            ) from None


def read(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file: keys as str, arrays as numpy arrays.

    A ValueError if it holds anything but arrays, lists, dicts, bytes, str and int.
    """
    try:
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="bytes").load()
        if not isinstance(content, dict):
            raise pickle.UnpicklingError(f"it holds a {type(content).__name__}, not a dict")
        return {
            key.decode("latin1") if isinstance(key, bytes) else str(key): _plain(value)
            for key, value in content.items()
        }
    except Exception as error:  # a damaged pickle raises anything at all
        reason = str(error) or type(error).__name__
        size = path.stat().st_size if path.is_file() else 0
        raise ValueError(f"{path} ({size} bytes) is not a CIFAR pickle file: {reason}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.array
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, bytes | str | int):
        return value
    raise pickle.UnpicklingError(f"it holds a {type(value).__name__}, which is not allowed")
