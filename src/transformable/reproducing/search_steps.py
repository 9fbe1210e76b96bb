"""Table 2's time and memory: search steps at the paper's geometry, which need no convergence.

Each |I| is measured in a process of its own, so that its peak of memory is its own. A search step
is one step of the weights and one of the sizes, a batch for each.
"""

import gc
import itertools
import multiprocessing
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..costing.budget import Budget
from ..models import build
from ..report.formatting import MISSING
from ..searching.search import make_supernet
from ..searching.search_step import SearchStep
from ..settings import Searching
from ..tracing.space import Space
from ..training.devices import make_fabric
from ..training.probe import peak_memory
from .layout import Table
from .paper import paper_rows

__all__ = ["measure_search_steps", "steps_table"]

BUDGET = 0.56
SIZE, CLASSES = 32, 10
GEOMETRY = f"ResNet-32, {SIZE}x{SIZE} images"


def measure_search_steps(
    selects: Sequence[int], steps: int, device: str, settings: Searching, model: str = "resnet32"
) -> list[dict[str, Any]]:
    """For each |I|, the seconds of a step (medians) and the bytes at the peak.

    The processes do their steps in turn, so that other work on the machine slows all of them alike.
    """
    # not forked: a forked process would begin with the memory of this one
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for select in selects:
        ours, theirs = context.Pipe()
        own = replace(settings, select=select, force=True)
        arguments = (theirs, own, device, model, torch.get_num_threads())
        process = context.Process(target=_step_when_asked, args=arguments, daemon=True)
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    # the first step is not counted
    rounds = [[_ask(*each) for each in zip(pipes, selects, strict=True)] for _ in range(steps + 1)]
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.close()
        process.join()
    found = []
    for select, taken in zip(selects, zip(*rounds[1:], strict=True), strict=True):
        seconds, processor, memory = zip(*taken, strict=True)
        found.append(
            {
                "select": select,
                "seconds": statistics.median(seconds),
                "processor_seconds": statistics.median(processor),
                "memory_bytes": memory[-1],
                "batch": settings.batch_size,
            }
        )
    return found


def _ask(pipe: Any, select: int) -> tuple[float, float, int]:
    """Seconds, processor seconds and peak of memory of the next step of another process."""
    try:
        pipe.send(None)
        taken: tuple[float, float, int] = pipe.recv()
    except (EOFError, ConnectionError):
        raise ValueError(
            f"the search steps with |I| = {select} ended early; probably out of memory"
        ) from None
    return taken


def _step_when_asked(pipe: Any, settings: Searching, device: str, model: str, threads: int) -> None:
    """Do a search step for each message that comes, until the other end is closed."""
    torch.set_num_threads(threads)
    fabric = make_fabric(device)
    network = build(model, num_classes=CLASSES)
    space = Space.trace(network, (3, SIZE, SIZE), residual="project")
    supernet = make_supernet(network, space, settings, 0).to(fabric.device).train()
    step = SearchStep(supernet, Budget.of(BUDGET, space), settings, 1000, fabric)
    count = settings.batch_size
    x = torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    x = fabric.to_device(x).contiguous(memory_format=torch.channels_last)
    batch = x, fabric.to_device(torch.arange(count) % CLASSES)
    gc.collect()
    before = peak_memory(fabric.device)  # building the network is no part of a step
    for number in itertools.count():
        try:
            pipe.recv()
        except EOFError:
            return
        start, processor_start = time.perf_counter(), time.process_time()
        step(number, 0, batch, batch)
        if fabric.device.type == "cuda":
            torch.cuda.synchronize(fabric.device)
        seconds = time.perf_counter() - start
        # of all threads together; other work on the machine does not count
        processor = time.process_time() - processor_start
        pipe.send((seconds, processor, peak_memory(fabric.device) - before))


def steps_table(measured: Sequence[Mapping[str, Any]]) -> Table:
    """Our figures beside the paper's hours and gigabytes, each also as a multiple of the first."""
    columns = ["candidates", "paper: search", "paper: memory"]
    columns += ["ours: a step", "ours: processor time of a step", "ours: memory"]
    rows, batch = paper_rows("table2"), measured[0]["batch"]
    cells = []
    for row in rows:
        ours = next((each for each in measured if each["select"] == row.select), None)
        cells.append(
            [
                row.name,
                _times(row.search_hours, rows[0].search_hours, "{:.2f} h"),
                _times(row.memory_gb, rows[0].memory_gb, "{:.1f} GB"),
                *(_ours(ours, measured[0]) if ours is not None else [MISSING] * 3),
            ]
        )
    return Table(
        title=f"One search step at the paper's geometry ({GEOMETRY}, batches of {batch})",
        columns=columns,
        cells=cells,
    )


def _ours(ours: Mapping[str, Any], first: Mapping[str, Any]) -> list[str]:
    return [
        _times(ours["seconds"], first["seconds"], "{:.2f} s"),
        _times(ours["processor_seconds"], first["processor_seconds"], "{:.2f} s"),
        _times(ours["memory_bytes"] / 1e9, first["memory_bytes"] / 1e9, "{:.2f} GB"),
    ]


def _times(value: float | None, first: float | None, form: str) -> str:
    if value is None or first is None:
        return MISSING
    return f"{form.format(value)} ({value / first:.2f}x)"
