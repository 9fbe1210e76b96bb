"""Random inputs of the parsers and readers, most of them damaged, and what must come out."""

import io
import json
import math
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import strategies as st

from transformable import Shape, data
from transformable.cli.config_file import read_config
from transformable.cli.options import Train
from transformable.cli.pruning_options import Prune, Sweep
from transformable.costing.budget import SUFFIXES, _number
from transformable.data import cifar
from transformable.runs.toml_text import to_toml
from transformable.settings import plain_values

__all__ = ["PARSERS"]

RECORDS = 12


def accepted(read: Callable[[], Any]) -> Any:
    """What ``read`` gives, or None if it refuses with one line; anything else goes through."""
    try:
        return read()
    except ValueError as error:
        refusal = str(error)
    assert refusal
    assert "\n" not in refusal, refusal
    return None


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


_NAMES = st.sampled_from(
    ["epochs", "lr", "model", "train", "search", "student", "budget", "budgets", "ratios", "preset"]
)
_LEAVES = (
    st.none() | st.booleans() | st.integers(-5, 10**9) | st.floats(-2, 2)
    | st.sampled_from(["", "0.5", "resnet20", "quick", "é\n\x00"])
)  # fmt: skip
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_TABLES = st.dictionaries(_NAMES | st.text(max_size=5), _VALUES.filter(bool), max_size=4)
_GOOD = {
    "epochs": st.integers(1, 500),
    "batch_size": st.integers(1, 512),
    "lr": st.floats(1e-4, 1.0),
    "momentum": st.floats(0.0, 0.99),
    "accumulate": st.integers(1, 8),
}
_GOOD_SECTION = st.fixed_dictionaries({}, optional=_GOOD)
_GOOD_TABLES = [
    st.fixed_dictionaries({}, optional={**_GOOD, "seed": st.integers(0, 9)}),
    *[st.fixed_dictionaries({}, optional={"train": _GOOD_SECTION, "student": _GOOD_SECTION})] * 2,
]
"""Tables for each of OPTIONS that are right, though not all values are possible together."""
_JSON_TEXT = st.text(max_size=30) | _VALUES.map(json.dumps)
OPTIONS = [Train, Prune, Sweep]


def _toml(table: dict[str, Any], inside: bool = False) -> str:
    """TOML with inline tables, which to_toml does not write; JSON's values are TOML's but null."""
    pairs = ((json.dumps(key), value) for key, value in table.items() if value is not None)
    lines = [f"{key} = {_toml_value(value)}" for key, value in pairs]
    return f"{{{', '.join(lines)}}}" if inside else "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return _toml(value, inside=True)
    if isinstance(value, list):
        return f"[{', '.join(_toml_value(each) for each in value if each is not None)}]"
    return json.dumps(value)


def check_config(case: tuple[int, dict[str, Any] | bytes]) -> bool:
    """What is read from a file is what is written again."""
    number, given = case
    base = OPTIONS[number]()
    with _folder() as folder:
        path = folder / "config.toml"
        path.write_bytes(given if isinstance(given, bytes) else _toml(given).encode())
        options = accepted(lambda: read_config(path, base))
        if options is not None:
            assert isinstance(given, bytes) or _holds(plain_values(options), given)
            path.write_text(to_toml(plain_values(options)), encoding="utf-8")
            assert read_config(path, base) == options
    return options is not None


def _holds(values: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether all numbers that were given, at the top or in a section, have arrived; budgets are
    kept as text."""
    for name, value in given.items():
        if isinstance(value, dict):
            if not _holds(values[name], value):
                return False
        elif isinstance(value, int | float) and values[name] not in (value, str(value)):
            return False
    return True


def check_shape(text: str) -> bool:
    """A shape that is accepted comes back the same through JSON."""
    shape = accepted(lambda: Shape.from_json(text))
    if shape is not None:
        assert Shape.from_json(shape.to_json()) == shape
        assert all(size >= 1 for size in (*shape.widths.values(), *shape.depths.values()))
    return shape is not None


FULL = 40_813_184


def check_budget(case: tuple[str, str] | str) -> bool:
    """A number with a suffix is that number times it; other text is refused."""
    if isinstance(case, str):
        return accepted(lambda: _number(case, FULL, "macs")) is not None
    number, suffix = case
    found = accepted(lambda: _number(number + suffix, FULL, "macs"))
    value = float(number)
    if not value:
        assert found is None
    elif suffix == "%" or (not suffix and value <= 10):
        assert found == (value / 100 if suffix else value) * FULL
    else:
        assert found == value * SUFFIXES[suffix.upper()]
    return found is not None


Damage = tuple[str, float, int]
"""What is done to a file: its kind, where (as a part of its length), and a byte."""


def damaged(content: bytes, damages: list[Damage]) -> bytes:
    for kind, part, byte in damages:
        at = int(part * max(0, len(content) - 1))
        if kind == "cut":
            content = content[:at]
        elif kind == "flip" and content:
            content = content[:at] + bytes([byte]) + content[at + 1 :]
        elif kind == "insert":
            content = content[:at] + bytes([byte]) + content[at:]
    return content


_WHERE = st.floats(0, 1)
_DAMAGE = st.tuples(st.sampled_from(["cut", "flip", "flip", "insert"]), _WHERE, st.integers(0, 255))
_DAMAGES = st.lists(_DAMAGE, max_size=3)
_DTYPES = st.sampled_from(["u1", "f4", "f8", "i8", "i4", "b1", "O", "U3", "c8", "M8[s]", ">i2"])
_SIZES = st.sampled_from([(6, 3, 8, 8), (6, 8, 8, 3), (6, 8, 8), (6,), (0, 3, 8, 8), (), (5,)])


def _array(kind: str, size: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    values = np.arange(math.prod(size)).reshape(size) % 2
    np.save(file, values.astype(kind) if kind != "O" else np.full(size, None))
    return file.getvalue()


def check_npz(case: tuple[dict[str, tuple[str, tuple[int, ...]]], list[Damage], int]) -> bool:
    """An accepted file has the images and labels that it says it has."""
    arrays, damages, method = case
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression=method) as archive:
        for name, (kind, size) in arrays.items():
            archive.writestr(f"{name}.npy", _array(kind, size))
    with _folder() as folder:
        path = folder / "own.npz"
        path.write_bytes(damaged(file.getvalue(), damages))
        accepted(lambda: data.info(f"npz:{path}"))
        loaded = accepted(lambda: data.load(f"npz:{path}", validation=0))
    if loaded is None:
        return False
    assert len(loaded.train) == arrays["x_train"][1][0]
    assert len(loaded.test) == arrays["x_test"][1][0]
    for part in (loaded.train, loaded.test):
        assert part.labels.tolist() == [number % 2 for number in range(len(part))]
        # every second value is 1
        assert part.images.sum() == part.images.numel() // 2
    return True


def check_cifar(case: tuple[str, str, list[Damage]]) -> bool:
    """Damaged official files are refused, or hold as many images as the set has."""
    name, form, damages = case
    about = replace(cifar.SETS[name], records=dict.fromkeys(cifar.SETS[name].records, RECORDS))
    pixels = np.arange(RECORDS * 3072).astype(np.uint8).reshape(RECORDS, 3072)
    labels = list(range(RECORDS)) if name == "cifar100" else [i % 10 for i in range(RECORDS)]
    suffix = ".bin" if form == "binary" else ""
    if form == "binary":
        head = np.zeros((RECORDS, about.label_bytes), np.uint8)
        head[:, -1] = labels
        content = np.concatenate([head, pixels], 1).tobytes()
    else:
        record = {b"data": pixels, about.label_key.encode(): labels}
        content = pickle.dumps(record, protocol=int(form))
    with _folder() as folder, mock.patch.dict(cifar.SETS, {name: about}):
        for file in about.records:
            (folder / f"{file}{suffix}").write_bytes(content)
        (folder / f"{about.test}{suffix}").write_bytes(damaged(content, damages))
        loaded = accepted(lambda: data.load(name, folder, validation=0))
    if loaded is None:
        return False
    assert len(loaded.test) == RECORDS
    assert int(loaded.test.labels.min()) >= 0
    assert int(loaded.test.labels.max()) < len(about.classes)
    if not damages:
        assert loaded.test.labels.tolist() == labels
        assert np.array_equal(loaded.test.images.numpy().reshape(RECORDS, -1), pixels)
    return True


_KEYS = ("x_train", "y_train", "x_test", "y_test")
_RIGHT = {
    "x_train": ("u1", (6, 3, 8, 8)), "y_train": ("i8", (6,)),
    "x_test": ("u1", (6, 3, 8, 8)), "y_test": ("i8", (6,)),
}  # fmt: skip
_ARRAYS = st.dictionaries(st.sampled_from(_KEYS), st.tuples(_DTYPES, _SIZES), max_size=2)
_OTHER_TYPES = st.fixed_dictionaries(
    {},
    optional={
        name: st.tuples(st.sampled_from(kinds), st.just(_RIGHT[name][1]))
        for name, kinds in (("y_train", ["u1", "i4", ">i2"]), ("y_test", ["i8", "i4", "u1"]))
    },
)
"""Of labels, all of which are right."""
_DIGITS = st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True)

PARSERS: dict[str, tuple[Callable[[Any], bool], st.SearchStrategy[Any]]] = {
    "config": (
        check_config,
        st.integers(0, len(OPTIONS) - 1).flatmap(
            lambda number: st.tuples(
                st.just(number), _GOOD_TABLES[number] | _TABLES | st.binary(max_size=40)
            )
        ),
    ),
    "shape": (
        check_shape,
        _JSON_TEXT
        | st.fixed_dictionaries(
            {"widths": st.dictionaries(st.text(max_size=3), st.integers(1, 99)) | _VALUES},
            optional={"depths": _VALUES, "channels": _VALUES},
        ).map(json.dumps),
    ),
    "budget": (
        check_budget,
        st.text(max_size=12)
        | st.tuples(_DIGITS, st.sampled_from(["", "%", "K", "k", "M", "m", "G", "b"])),
    ),
    "npz": (
        check_npz,
        st.tuples(
            (_ARRAYS | _OTHER_TYPES).map(lambda own: _RIGHT | own),
            st.just([]) | _DAMAGES,
            st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
        ),
    ),
    "cifar": (
        check_cifar,
        st.tuples(
            st.sampled_from(["cifar10", "cifar100"]),
            st.sampled_from(["binary", "0", "2", "4", "5"]),
            _DAMAGES,
        ),
    ),
}
"""For each parser or reader its check, which says whether the input was accepted, and inputs."""
