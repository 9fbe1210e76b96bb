"""Table 2's time and memory: search steps at the paper's geometry, which need no convergence.

Each |I| is measured in a process of its own, so that its peak of memory is its own. A search step
is one step of the weights and one of the sizes, a batch for each.
"""

import gc
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
    """For each |I|, the seconds of a step (medians) and the bytes at the peak."""
    # not forked: a forked process would begin with the memory of this one
    context = multiprocessing.get_context("spawn")
    found = []
    for select in selects:
        ours, theirs = context.Pipe(duplex=False)
        threads = torch.get_num_threads()
        arguments = (theirs, select, steps, device, settings, model, threads)
        process = context.Process(target=_measure, args=arguments)
        process.start()
        theirs.close()
        try:
            seconds, processor, memory = ours.recv()
        except EOFError:
            raise ValueError(
                f"the search steps with |I| = {select} ended early; probably out of memory"
            ) from None
        finally:
            process.join()
        found.append(
            {
                "select": select,
                "seconds": seconds,
                "processor_seconds": processor,
                "memory_bytes": memory,
                "batch": settings.batch_size,
            }
        )
    return found


def _measure(
    results: Any,
    select: int,
    steps: int,
    device: str,
    settings: Searching,
    model: str,
    threads: int,
) -> None:
    torch.set_num_threads(threads)
    fabric = make_fabric(device)
    network = build(model, num_classes=CLASSES)
    space = Space.trace(network, (3, SIZE, SIZE), residual="project")
    settings = replace(settings, select=select, force=True)
    supernet = make_supernet(network, space, settings, 0).to(fabric.device).train()
    step = SearchStep(supernet, Budget.of(BUDGET, space), settings, 1000, fabric)
    count = settings.batch_size
    x = torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    x = fabric.to_device(x).contiguous(memory_format=torch.channels_last)
    batch = x, fabric.to_device(torch.arange(count) % CLASSES)
    gc.collect()
    before = peak_memory(fabric.device)  # building the network is no part of a step
    times, processor = [], []
    for number in range(steps + 1):  # the first is not counted
        start, processor_start = time.perf_counter(), time.process_time()
        step(number, 0, batch, batch)
        if fabric.device.type == "cuda":
            torch.cuda.synchronize(fabric.device)
        times.append(time.perf_counter() - start)
        # of all threads together; other work on the machine does not count
        processor.append(time.process_time() - processor_start)
    medians = (statistics.median(values[1:]) for values in (times, processor))
    results.send((*medians, peak_memory(fabric.device) - before))


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
