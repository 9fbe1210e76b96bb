"""Pickle files are read, never run."""

import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from transformable import data
from transformable.data import unpickle


def test_python_2_and_old_numpy_spelling(tmp_path: Path) -> None:
    # Written by hand as Python 2 with numpy 1 wrote the official files: byte strings by STRING
    # opcodes, dtype and state as there.
    pixels = bytes(range(6))
    program = (
        b"\x80\x02}(U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n"
        b"K\x00\x85U\x01b\x87R(K\x01K\x02K\x03\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06" + pixels + b"tb"
        b"U\x06labels](K\x00K\x01eu."
    )
    path = tmp_path / "data_batch_1"
    path.write_bytes(program)
    content = unpickle.read(path)
    assert content["data"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert content["data"].dtype == np.uint8
    assert content["labels"] == [0, 1]
    path.write_bytes(program.replace(b"numpy.core.", b"numpy._core."))
    assert unpickle.read(path)["data"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_arrays_of_fortran_order_and_other_integers(tmp_path: Path) -> None:
    array = np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3))
    for protocol in (2, 5):
        (tmp_path / "x").write_bytes(pickle.dumps({"a": array, "b": {"c": [1]}}, protocol))
        content = unpickle.read(tmp_path / "x")
        assert content["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert content["b"] == {"c": [1]}


class Touch:
    """A pickle of this calls `function` with `argument` when it is loaded the usual way."""

    def __init__(self, function: Callable[..., object], argument: object) -> None:
        self.function, self.argument = function, argument

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object]]:
        return self.function, (self.argument,)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_imports_something_is_refused_and_runs_nothing(
    protocol: int, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    hostile = pickle.dumps({b"data": Touch(os.rmdir, str(victim))}, protocol=protocol)
    (tmp_path / "data_batch_1").write_bytes(hostile)
    with pytest.raises(ValueError, match=r"data_batch_1 .* would import posix\.rmdir; only arrays"):
        data.load("cifar10", tmp_path)
    assert victim.is_dir()
    pickle.loads(hostile)
    assert not victim.is_dir()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": Touch(eval, "1")}, "would import builtins.eval"),
        ({"data": np.array([{}])}, "an array of 'O8' is not allowed"),
        ({"data": np.array([1.0])}, "an array of 'f8' is not allowed"),
        ({"data": np.float64(1)}, "multiarray.scalar; only arrays"),
        ({"data": np.array([1], ">i4")}, "byte order '>' is not allowed"),
        ({"data": 1.5}, "it holds a float"),
        ({"data": [None]}, "it holds a NoneType"),
        ({"data": {1, 2}}, "it holds a set"),
        ([1, 2], "it holds a list, not a dict"),
        ({"data": Path}, "would import pathlib"),
    ],
)
def test_pickles_of_anything_else_are_refused(
    content: object, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps(content, protocol=4))
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        unpickle.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_codec_is_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(b"(Vdata\nc_codecs\nencode\n(Vx\nVlatin1\ntRd.")
    assert unpickle.read(path) == {"data": b"x"}
    path.write_bytes(b"(Vdata\nc_codecs\nencode\n(Vx\nVrot13\ntRd.")
    with pytest.raises(ValueError, match="encoding 'rot13' is not allowed"):
        unpickle.read(path)


@pytest.mark.parametrize(
    "program",
    [
        b"cnumpy\ndtype\n(I5\ntR.",
        b"cnumpy.core.numeric\n_frombuffer\n(V..\nI1\nI1\nVC\ntR.",
        b"cnumpy\ndtype.__class__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0fndarray.__new__\x93.",
        b"",
        b"\x80\x02}(U",
        b"not a pickle",
    ],
)
def test_odd_programs_are_refused(program: bytes, tmp_path: Path) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(program)
    with pytest.raises(
        ValueError, match=rf"test_batch \({len(program)} bytes\) is not a CIFAR pickle"
    ):
        unpickle.read(path)
