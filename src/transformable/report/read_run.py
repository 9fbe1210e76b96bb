"""Reads the folder of a pruning run into `RunFacts`."""

import csv
import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from .run_facts import Choice, Layer, Measures, MetricRows, RunFacts, Speed, Target, Timing

__all__ = ["read_run"]

T = TypeVar("T")

FIX = "give the folder that a tas prune has written to its end (its --out)"


def read_run(folder: Path) -> RunFacts:
    """Read the folder of a finished run; a ValueError says what is wrong with it."""
    result = _read_result(folder)
    try:
        return _facts(folder, result)
    except KeyError as error:
        raise ValueError(f"{folder}/result.json has no {error.args[0]!r}; {FIX}") from None
    except (AttributeError, TypeError) as error:
        raise ValueError(f"{folder}/result.json is not that of a tas prune: {error}") from None


def _read_result(folder: Path) -> dict[str, Any]:
    path = folder / "result.json"
    if not path.is_file():
        missing = "it has no result.json" if folder.is_dir() else "there is no such folder"
        raise ValueError(f"{folder} is not the folder of a finished tas prune: {missing}; {FIX}")
    result = _json(path)
    if not isinstance(result, dict) or "before" not in result:
        raise ValueError(
            f"{folder} is not the folder of a finished tas prune: "
            f'its result.json has no "before"; {FIX}'
        )
    return result


def _facts(folder: Path, result: dict[str, Any]) -> RunFacts:
    layers = [_take(Layer, layer) for layer in result["layers"]]
    epochs, choices = _choices(folder / "search", result["shape"], layers)
    return RunFacts(
        model=str(result["model"]),
        data=str(result["data"]),
        seed=result["seed"],
        command=str(result["command"]),
        teacher_path=result.get("teacher"),
        method=str(result.get("method", "tas")),
        notes=_notes(result),
        measured=bool(result.get("measured", False)),
        images=result["n"],
        before=_take(Measures, result["before"]),
        after=_take(Measures, result["after"]),
        target=_take(Target, result["target"]),
        residual=str(result["residual"]),
        transfer=str(result["transfer"]),
        speed=[_speed(row) for row in result["speed"]],
        faster=str(result["faster"]),
        layers=layers,
        seconds=result["seconds"],
        environment=result["environment"],
        config=_config(folder / "config.toml"),
        teacher=_rows(folder / "teacher" / "metrics.csv"),
        search=_rows(folder / "search" / "metrics.csv"),
        student=_rows(folder / "student" / "metrics.csv"),
        epochs=epochs,
        choices=choices,
    )


def _notes(result: Mapping[str, Any]) -> dict[str, Any]:
    """The notes of the method; in older files two of them are outside of "notes"."""
    older = {name: result[name] for name in ("derived_by", "given_up") if name in result}
    return {**older, **result.get("notes", {})}


def _take(kind: type[T], record: Mapping[str, Any]) -> T:
    """The dataclass from the record that has its fields, and maybe more."""
    return kind(**{field.name: record[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def _speed(row: Mapping[str, Any]) -> Speed:
    before, after = (_take(Timing, row[which]) for which in ("before", "after"))
    return Speed(engine=str(row["engine"]), batch=row["batch"], before=before, after=after)


def _choices(
    folder: Path, shape: Mapping[str, Mapping[str, int]], layers: list[Layer]
) -> tuple[list[int], list[Choice]]:
    """The epochs, and the distribution of each layer and stage at the end of each."""
    paths = folder / "distributions.jsonl", folder / "candidates.json"
    if not all(path.is_file() for path in paths):
        return [], []
    history = [_parse(line, paths[0]) for line in _text(paths[0]).splitlines()]
    candidates: dict[str, list[int]] = _json(paths[1])
    dropped = {layer.name for layer in layers if layer.dropped}
    choices = []
    for name, sizes in candidates.items():
        probabilities = [row.get(name, []) for row in history]
        if any(len(row) != len(sizes) for row in probabilities):
            raise ValueError(f"{paths[0]} does not match {paths[1].name} at {name!r}; {FIX}")
        choices.append(
            Choice(
                name=name,
                unit="blocks" if name in shape["depths"] else "channels",
                sizes=sizes,
                probabilities=probabilities,
                chosen=shape["depths"].get(name, shape["widths"].get(name)),
                dropped=name in dropped,
            )
        )
    return [int(row["epoch"]) for row in history], choices if history else []


def _rows(path: Path) -> MetricRows:
    """The rows of a metrics file; none if there is no file."""
    if not path.is_file():
        return []
    try:
        return [
            {name: _number(cell) for name, cell in row.items()}
            for row in csv.DictReader(_text(path).splitlines())
        ]
    except (TypeError, ValueError):
        raise ValueError(f"{path} is not a metrics file of tas prune; {FIX}") from None


def _number(cell: str) -> float | None:
    """None for an empty cell and for a value that is not finite: neither can be drawn.

    >>> _number("0.5"), _number(""), _number("nan")
    (0.5, None, None)
    """
    value = float(cell) if cell else math.nan
    return value if math.isfinite(value) else None


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None


def _json(path: Path) -> Any:
    return _parse(_text(path), path)


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ValueError(f"{path} is not JSON; {FIX}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; {FIX}") from None
