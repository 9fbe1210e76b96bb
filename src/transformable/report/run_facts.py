"""What the report of one pruning run is made from: the content of its folder."""

import csv
import json
import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from ..runs.compare_settings import flat_settings
from .chance import accuracy_remarks
from .search_remark import search_remark

__all__ = ["Layer", "MetricRows", "RunFacts", "read_run"]

FIX = "give the folder that a tas prune has written to its end (its --out)"
PLAIN = ("model", "data", "seed", "command", "residual", "transfer", "faster", "seconds")
SCORES = {"accuracy": ("accuracy", "top5"), "score": ("score",)}
COSTS = ("macs", "params", "bytes", "latency_ms")
METRICS = "a metrics file of tas prune"
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
    us_before: float | None = None
    us_after: float | None = None
    """Microseconds, where the budget is a latency."""

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
    """Everything that a report shows of a run."""

    model: str
    data: str
    seed: int
    command: str
    teacher_path: str | None
    method: str
    notes: Mapping[str, Any]
    """What the method recorded about its work."""
    given: bool
    """Whether the unpruned network was trained elsewhere."""
    passes: Mapping[str, float]
    """Passes over the training images of the "search" and of the "student"; empty if unknown."""
    measured: bool
    """Whether the cost of the small network was measured on images, not counted."""
    images: int
    score: str
    """What the score is called: accuracy, or score if the task is not to classify."""
    classes: int | None
    remarks: Sequence[str]
    """Remarks that the numbers alone do not show."""
    own_search: bool
    """Whether the search was for this budget alone."""
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    """The numbers of both networks; None where something was not measured."""
    target: Mapping[str, Any]
    """The budget, and the band around it that counts as met."""
    fixed: Sequence[str]
    """The layers that keep their width, and why."""
    residual: str
    transfer: str
    speed: Sequence[Mapping[str, Any]]
    """For each engine and batch size the times of both networks: median and quartiles."""
    faster: str
    layers: Sequence[Layer]
    conditions: str | None
    """What latencies belong to, if the budget or a limit beside it is one."""
    timed: bool
    """Whether both networks were timed under these conditions, and not by the table alone."""
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
    def has_top5(self) -> bool:
        """Whether the five likeliest classes are fewer than all."""
        known = self.before.get("top5") is not None and self.after.get("top5") is not None
        return known and (self.classes is None or self.classes > 5)

    @property
    def search_remark(self) -> str:
        """A sentence if the search hardly decided, or for sizes outside the band; or ""."""
        if not self.search:
            return ""
        last = self.search[-1]
        # the last row is of an epoch; what was derived behind it may be inside the band
        inside = not self.own_search or self.notes.get("derived_by") == "argmax"
        band = None if inside else (self.target["low"], self.target["high"])
        derived, expected = last.get("derived"), last.get("expected")
        return search_remark(last.get("discrepancy"), derived, expected, band)

    @property
    def title(self) -> str:
        by = "" if self.method == "tas" else f" by {self.method}"
        return f"{self.model} on {self.data}, pruned{by}"


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
    result = _read(path, "JSON", json.loads)
    if isinstance(result, dict) and "before" in result:
        return result
    reason = 'its result.json has no "before"'
    if not path.is_file():
        reason = "it has no result.json" if folder.is_dir() else "there is no such folder"
    raise ValueError(f"{folder} is not the folder of a finished tas prune: {reason}; {FIX}")


def _facts(folder: Path, result: dict[str, Any]) -> RunFacts:
    needed = [field.name for field in fields(Layer) if field.default is MISSING]
    # a trial of a comparison shares its teacher and its search with others
    shared = result.get("folders", {})
    teacher, search, student = (
        folder / shared.get(name, name) for name in ("teacher", "search", "student")
    )
    candidates, distributions = _distributions(search)
    score = "score" if "score" in result["before"] else "accuracy"
    return RunFacts(
        layers=[
            Layer(**_pick(layer, *needed), **_known(layer, "us_before", "us_after"))
            for layer in result["layers"]
        ],
        shape=_pick(result["shape"], "widths", "depths"),
        **_pick(result, *PLAIN, "environment"),
        teacher_path=result.get("teacher"),
        method=str(result.get("method", "tas")),
        notes=_notes(result),
        given=bool(result.get("trained", False)),
        passes=result.get("passes") or {},
        measured=bool(result.get("measured", False)),
        images=result["n"],
        classes=result.get("num_classes"),
        remarks=accuracy_remarks(result),
        own_search=not shared.get("search", "").startswith("../../"),
        score=score,
        before=_side(result["before"], score),
        after=_side(result["after"], score),
        target=_pick(result["target"], "metric", "value", "low", "high")
        | _known(result["target"], "at_most"),
        fixed=result.get("fixed") or [],
        conditions=result["target"].get("conditions"),
        timed="timed" in result,
        speed=[_speed(row) for row in result["speed"]],
        config=_read(folder / "config.toml", "TOML", _settings, absent={}),
        teacher=_read(teacher / "metrics.csv", METRICS, _metric_rows, absent=[]),
        search=_read(search / "metrics.csv", METRICS, _metric_rows, absent=[]),
        student=_read(student / "metrics.csv", METRICS, _metric_rows, absent=[]),
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


def _side(record: Mapping[str, Any], score: str) -> dict[str, Any]:
    """The numbers of one of the networks."""
    return _pick(record, *SCORES[score], *COSTS) | _known(record, "latency")


def _known(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of a record's fields that are there."""
    return {name: record[name] for name in names if name in record}


def _speed(row: Mapping[str, Any]) -> dict[str, Any]:
    times = {which: _pick(row[which], *TIMES) for which in ("before", "after")}
    return {**_pick(row, "engine", "batch"), **times}


def _distributions(folder: Path) -> tuple[dict[str, list[int]], list[dict[str, Any]]]:
    """The candidates of the search and their probabilities by epoch; empty without a search."""
    paths = folder / "candidates.json", folder / "distributions.jsonl"
    if not all(path.is_file() for path in paths):
        return {}, []
    candidates: dict[str, list[int]] = _read(paths[0], "JSON", json.loads)
    history: list[dict[str, Any]] = _read(paths[1], "JSON", _json_lines)
    for name, sizes in candidates.items():
        if any("epoch" not in row or len(row.get(name, [])) != len(sizes) for row in history):
            raise ValueError(f"{paths[1]} does not match {paths[0].name} at {name!r}; {FIX}")
    return candidates, history


def _json_lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def _settings(text: str) -> dict[str, Any]:
    return flat_settings(tomllib.loads(text))


def _metric_rows(text: str) -> MetricRows:
    """The rows of a metrics.csv, without values that are not finite: they cannot be drawn."""
    rows = csv.DictReader(text.splitlines())
    numbers = [{name: float(cell or "nan") for name, cell in row.items()} for row in rows]
    return [{name: x if math.isfinite(x) else None for name, x in row.items()} for row in numbers]


def _read(path: Path, kind: str, parse: Callable[[str], Any], absent: Any = None) -> Any:
    """The parsed content of a file, or ``absent`` if there is no file."""
    if not path.is_file():
        return absent
    try:
        return parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text; {FIX}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not {kind} ({error}); {FIX}") from None
