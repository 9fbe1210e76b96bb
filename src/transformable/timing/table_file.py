"""The file of a latency table: measured once for a network and a machine, then read."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic_files import write_whole
from ..costing.latency import Conditions, Latency, Surface
from ..settings import Runtime
from ..tracing.space import Space
from .build import Measured, measure_latency
from .machine import processor
from .parts import find_parts, timed_part
from .stopwatch import check_threads
from .timer import shape_timer

__all__ = ["Table", "conditions_here", "find_latency", "read_table", "write_table"]

VERSION = 2
SURFACES = ("surface", "unequal", "unaligned")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Measured times, and the seconds that measuring took."""

    measured: Measured
    seconds: float
    path: Path


def conditions_here(runtime: Runtime, batch: int, threads: int, device: torch.device) -> Conditions:
    """The conditions on this machine."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    return Conditions(machine=name, runtime=runtime, batch=batch, threads=threads)


def fingerprint(space: Space) -> str:
    """A name for the network of a space, whatever its candidate sizes are."""
    nodes = [(node.op, node.name) for node in space.graph.nodes]
    state = {name: list(size) for name, size in space.state.items()}
    content = json.dumps([nodes, state, space.input_shape, space.residual])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def cache_file(space: Space, conditions: Conditions) -> Path:
    """Where the table of a network is kept if no other file is named."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    machine = hashlib.sha256(conditions.machine.encode()).hexdigest()[:8]
    name = f"{fingerprint(space)}-{conditions.runtime}-{conditions.batch}-{conditions.threads}"
    return Path(cache) / "transformable" / "latency" / f"{name}-{machine}.json"


def find_latency(
    model: nn.Module,
    space: Space,
    conditions: Conditions,
    *,
    path: Path | None = None,
    machine: str | None = None,
    device: torch.device | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Table:
    """The table of a network: from the file ``path``, or from the cache, or measured now and kept.

    A table of another machine is refused unless ``machine`` names it.
    """
    table: Table | None
    if path is not None and path.exists():
        table = read_table(path, model, space)
        _check_conditions(path, table.measured.latency.conditions, conditions, machine)
    else:
        path = path or cache_file(space, conditions)
        table = _cached(path, model, space)
    if table is None:
        start = time.perf_counter()
        measured = measure_latency(model, space, conditions, device=device, progress=progress)
        table = Table(measured=measured, seconds=time.perf_counter() - start, path=path)
        write_table(path, table, space)
    latency = table.measured.latency
    if latency.conditions.machine == conditions.machine:
        check_threads(conditions.threads)
        timed = replace(latency, timer=shape_timer(model, space, latency, device))
        table = replace(table, measured=replace(table.measured, latency=timed))
    return table


def _cached(path: Path, model: nn.Module, space: Space) -> Table | None:
    try:
        return read_table(path, model, space)
    except (OSError, ValueError):  # not there, or of another version
        return None


def _check_conditions(path: Path, theirs: Conditions, ours: Conditions, named: str | None) -> None:
    if theirs.machine not in (ours.machine, named):
        raise ValueError(
            f"{path} was measured on {theirs.machine!r}, and this is {ours.machine!r}: measure it "
            f"here (tas latency), or accept it with --latency-machine {theirs.machine!r}"
        )
    for name in ("runtime", "batch", "threads", "dtype"):
        if getattr(theirs, name) != getattr(ours, name):
            raise ValueError(
                f"{path} was measured with {name} {getattr(theirs, name)}, not "
                f"{getattr(ours, name)}: ask for that, or measure another table (tas latency --out)"
            )


def write_table(path: Path, table: Table, space: Space) -> None:
    """Write a table to a file."""
    latency = table.measured.latency
    content = {
        "version": VERSION,
        "network": fingerprint(space),
        "conditions": asdict(latency.conditions),
        "full": latency.full,
        "constant": latency.constant,
        "noise": table.measured.noise,
        "error": table.measured.error,
        "seconds": table.seconds,
        "parts": {
            part.name: {
                case: surface.to_dict()
                for case in SURFACES
                if (surface := getattr(part, case)) is not None
            }
            for part in latency.parts
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(content, indent=1) + "\n")


def read_table(path: Path, model: nn.Module, space: Space) -> Table:
    """Read a table from a file; a ValueError if it is of another network or is no table."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version, network = content["version"], content["network"]
        ours = (version, network) == (VERSION, fingerprint(space))
        table = _table(content, path, model, space) if ours else None
    except OSError as error:
        raise ValueError(f"cannot read the latency table {path}: {error.strerror}") from error
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a latency table: delete it, or name another file"
        ) from error
    if version != VERSION:
        raise ValueError(
            f"{path} has version {version}, not {VERSION}: delete it, or name another file"
        )
    if table is None:
        raise ValueError(f"{path} was measured for another network, or for images of another size")
    return table


def _table(content: dict[str, Any], path: Path, model: nn.Module, space: Space) -> Table:
    parts = []
    for part in find_parts(model, space):
        own = content["parts"][part.name]
        surfaces = {case: Surface.from_dict(own[case]) for case in SURFACES if case in own}
        if part.is_add != ("unequal" in surfaces):
            raise KeyError(part.name)
        parts.append(timed_part(part, **surfaces))
    latency = Latency(
        conditions=Conditions(**content["conditions"]),
        full=float(content["full"]),
        constant=float(content["constant"]),
        parts=parts,
    )
    measured = Measured(latency=latency, noise=content["noise"], error=content["error"])
    return Table(measured=measured, seconds=content["seconds"], path=path)
