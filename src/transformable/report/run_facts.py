"""What the report of one pruning run is made from: the content of its folder."""

import csv
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..runs.run_folder import flat_settings

__all__ = ["Layer", "MetricRows", "RunFacts", "read_run"]

FIX = "give the folder that a tas prune has written to its end (its --out)"
PLAIN = ("model", "data", "seed", "command", "residual", "transfer", "faster", "seconds")
MEASURES = ("accuracy", "top5", "macs", "params", "bytes", "latency_ms")
TARGET = ("metric", "value", "low", "high")
TIMES = ("median_ms", "low_ms", "high_ms")

MetricRows = Sequence[Mapping[str, float | None]]
"""A metrics.csv: a mapping for each epoch; an empty cell is None."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer, before and after.

    `kept` is 0 where its block was dropped; `full` is 0 where the layer was added, such as a
    projection in a shortcut whose ends are no longer equally wide.
    """

    name: str
    stage: str | None
    block: int | None
    kind: str
    kernel: Sequence[int] | None
    size: Sequence[int] | None
    full: int
    kept: int
    macs_before: int
    macs_after: int
    params_before: int
    params_after: int

    @property
    def dropped(self) -> bool:
        return self.kept == 0

    @property
    def added(self) -> bool:
        return self.full == 0

    @property
    def short_name(self) -> str:
        """The name inside its block."""
        return self.name.removeprefix(f"{self.stage}.{self.block}.")


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """All that a report tells of a run."""

    model: str
    data: str
    seed: int
    command: str
    teacher_path: str | None
    method: str
    notes: Mapping[str, Any]
    """What the method recorded about its work."""
    measured: bool
    """Whether the cost of the small network was measured on images, not counted."""
    images: int
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    """The numbers of both networks; None where something was not measured."""
    target: Mapping[str, Any]
    """The budget, and the band around it that counts as met."""
    residual: str
    transfer: str
    speed: Sequence[Mapping[str, Any]]
    """For each engine and batch size the times of both networks: median and quartiles."""
    faster: str
    layers: Sequence[Layer]
    seconds: Mapping[str, float]
    environment: Mapping[str, Any]
    config: Mapping[str, Any]
    teacher: MetricRows
    search: MetricRows
    student: MetricRows
    shape: Mapping[str, Mapping[str, int]]
    """``widths`` and ``depths``: the chosen size of each layer and stage."""
    candidates: Mapping[str, Sequence[int]]
    """The sizes that a search could choose from."""
    distributions: Sequence[Mapping[str, Any]]
    """The search by epoch: ``epoch``, and for each layer and stage the probability of each size."""

    @property
    def title(self) -> str:
        by = "" if self.method == "tas" else f" by {self.method}"
        return f"{self.model} on {self.data}, pruned{by}"


LAYER = [field.name for field in fields(Layer)]


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
    layers = [Layer(**_pick(layer, *LAYER)) for layer in result["layers"]]
    shape = _pick(result["shape"], "widths", "depths")
    # a trial of a comparison shares its teacher and its search with others
    shared = result.get("folders", {})
    teacher, search, student = (
        folder / shared.get(name, name) for name in ("teacher", "search", "student")
    )
    candidates, distributions = _distributions(search)
    return RunFacts(
        **_pick(result, *PLAIN, "environment"),
        teacher_path=result.get("teacher"),
        method=str(result.get("method", "tas")),
        notes=_notes(result),
        measured=bool(result.get("measured", False)),
        images=result["n"],
        before=_pick(result["before"], *MEASURES),
        after=_pick(result["after"], *MEASURES),
        target=_pick(result["target"], *TARGET),
        speed=[_speed(row) for row in result["speed"]],
        layers=layers,
        shape=shape,
        config=_config(folder / "config.toml"),
        teacher=_rows(teacher / "metrics.csv"),
        search=_rows(search / "metrics.csv"),
        student=_rows(student / "metrics.csv"),
        candidates=candidates,
        distributions=distributions,
    )


def _notes(result: Mapping[str, Any]) -> dict[str, Any]:
    """The notes of the method; in older files two of them are outside of "notes"."""
    older = {name: result[name] for name in ("derived_by", "given_up") if name in result}
    return {**older, **(result.get("notes") or {})}


def _pick(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """These of a record's fields, all of which must be there."""
    return {name: record[name] for name in names}


def _speed(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {which: _pick(row[which], *TIMES) for which in ("before", "after")}
    return {**_pick(row, "engine", "batch"), **times}


def _distributions(folder: Path) -> tuple[dict[str, list[int]], list[dict[str, Any]]]:
    """The candidates of the search and their probabilities by epoch; empty without a search."""
    paths = folder / "candidates.json", folder / "distributions.jsonl"
    if not all(path.is_file() for path in paths):
        return {}, []
    candidates: dict[str, list[int]] = _json(paths[0])
    history = [_parse(line, paths[1]) for line in _text(paths[1]).splitlines()]
    for name, sizes in candidates.items():
        if any("epoch" not in row or len(row.get(name, [])) != len(sizes) for row in history):
            raise ValueError(f"{paths[1]} does not match {paths[0].name} at {name!r}; {FIX}")
    return candidates, history


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
        return flat_settings(tomllib.loads(_text(path)))
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
