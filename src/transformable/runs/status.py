"""The state of a run folder, read only: nothing is locked or written."""

import csv
import time
from pathlib import Path
from typing import Any

from .progress_file import ProgressRecord
from .run_folder import read_json, read_settings

__all__ = ["run_status"]

SCORES = ("accuracy", "top5", "score", "macs", "params")
"""The numbers of result.json that are shown."""


def run_status(folder: Path) -> dict[str, Any]:
    """The state of a run folder, how far its work is, and the last numbers.

    >>> run_status(Path("nowhere"))
    Traceback (most recent call last):
    ValueError: nowhere is not a run folder: there is no such folder
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a run folder: there is no such folder")
    if [entry.name for entry in folder.iterdir()] == [".lock"]:
        return {"state": "not started", "command": None, "model": None, "data": None}
    settings = read_settings(folder)
    record = ProgressRecord.read(folder)
    return {
        "state": _state(folder, record),
        **{name: settings.get(name) for name in ("command", "model", "data")},
        **({} if record is None else _progress(record)),
        "last": _last_numbers(folder),
        "result": _scores(folder),
        "trials": [] if record is None else _trials(folder, record),
    }


def _state(folder: Path, record: ProgressRecord | None) -> str:
    """One of: not started, running, finished, interrupted, failed, dead (the process is gone, and
    left no reason), elsewhere (its last record is from another machine)."""
    alive = record is not None and not record.ended and record.process.is_alive()
    if alive:  # a comparison with a result may have been given more to do
        return "running"
    if (folder / "result.json").exists():
        return "finished"
    if record is None:
        return "not started"
    if record.ended:
        return "finished" if record.ended == "done" else record.ended
    return "elsewhere" if alive is None else "dead"


def _progress(record: ProgressRecord) -> dict[str, Any]:
    """The stage and how far it is, the rate and the time left, the process."""
    rate, left = record.rate, record.total - record.done
    process = record.process
    return {
        "stage": record.stage,
        "done": record.done,
        "total": record.total or None,
        "steps_per_second": rate,
        "seconds_left": None if rate is None or record.total == 0 else left / rate,
        "note": record.note or None,
        "reason": record.reason or None,
        "updated_seconds_ago": max(0.0, time.time() - record.written),
        "process": {"host": process.host, "pid": process.pid, "alive": process.is_alive()},
    }


def _trials(folder: Path, record: ProgressRecord) -> list[dict[str, Any]]:
    """The trials of a comparison: running, done, failed or waiting, with their progress."""
    found = []
    for name, known in record.trials.items():
        own = ProgressRecord.read(folder / name)
        state, here = known["state"], _state(folder / name, own)
        if here == "running":
            state = "running"
        elif state == "running":  # as the process of the comparison saw it last
            state = "done" if here == "finished" else "waiting"
        trial = {"trial": name, "state": state}
        found.append(
            {**trial, **({} if own is None else _progress(own)), "reason": known["reason"]}
        )
    return found


def _last_numbers(folder: Path) -> dict[str, Any] | None:
    """The last row of the metrics that were written last, here or in a part of the work."""
    files = sorted(folder.rglob("metrics.csv"), key=lambda path: path.stat().st_mtime_ns)
    if not files:
        return None
    with files[-1].open(encoding="utf-8", newline="") as file:
        *_, row = csv.DictReader(file)
    numbers = {name: float(value) if value else None for name, value in row.items()}
    return {"file": str(files[-1].relative_to(folder)), **numbers}


def _scores(folder: Path) -> dict[str, Any] | None:
    path = folder / "result.json"
    if not path.exists():
        return None
    result = read_json(path)
    result = result.get("after", result)
    return {name: result[name] for name in SCORES if name in result} or None
