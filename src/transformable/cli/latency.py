"""What ``tas latency`` does."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group
from rich.table import Table

from .. import data
from ..networks.build import build_network
from ..timing.table_file import conditions_here, find_latency
from ..tracing.space import Space
from ..training.devices import make_fabric
from .outcome import Outcome
from .progress_bar import show_progress
from .query_options import Latency

__all__ = ["latency"]


@dataclass(frozen=True, kw_only=True)
class LatencyOutcome(Outcome):
    """The time of each layer of a network, and the total."""

    def show(self) -> Group:
        found = self.result
        table = Table(show_footer=True)
        table.add_column("layer", "call", overflow="fold")
        whole = 1000 * found["latency_ms"]
        table.add_column("microseconds", f"{whole:,.1f}", justify="right")
        table.add_column("share", "100.0 %", justify="right")
        rows = {**found["layers_us"], "the call itself": found["call_us"]}
        rows["error of the sum"] = whole - sum(rows.values())
        for name, microseconds in rows.items():
            share = f"{microseconds / whole:.1%}".replace("%", " %")
            table.add_row(name, f"{microseconds:,.1f}", share)
        lines = [
            f"measured in {found['runtime']} at batch {found['batch']}, threads: "
            f"{found['threads']}, on {found['machine']}",
            f"noise of a call {found['noise']:.1%}; nine of ten networks of random shape are "
            f"within {found['error']:.1%} of the sum of their parts",
            f"kept in {found['out']}; it took {found['seconds']:.1f} s to measure",
        ]
        return self.page(table, *lines, *([found["warning"]] if found["warning"] else []))


def latency(options: Latency, command: str) -> Outcome:
    """Measure a network, or show what was measured before."""
    size = options.image_size
    shape = None if size is None else (3, size, size)
    info = None
    if shape is None or options.num_classes is None:
        info = data.info(options.data)
        shape = shape or info.input_shape
    classes = options.num_classes or (info.num_classes if info else 1)
    model = build_network(options.model, num_classes=classes, in_channels=shape[0])
    space = Space.trace(model, shape, residual=options.residual, leaf=options.leaf)
    device = make_fabric(options.device).device
    conditions = conditions_here(
        options.runtime, options.latency_batch, options.latency_threads, device
    )
    with show_progress() as bar:  # nothing is kept of a table that is not finished

        def progress(done: int, total: int) -> None:
            if done == 0:
                bar.start("measuring latencies", total, 0)
            bar.advance(done)

        table = find_latency(
            model,
            space,
            conditions,
            path=None if options.out is None else Path(options.out),
            machine=options.latency_machine,
            device=device,
            progress=progress,
        )
    measured = table.measured
    times = measured.latency
    result: dict[str, Any] = {
        "latency_ms": times.full / 1e6,
        "layers_us": {name: each / 1e3 for name, each in times.by_layer(space, space.full).items()},
        "call_us": times.scale * times.constant / 1e3,
        "machine": times.conditions.machine,
        "runtime": times.conditions.runtime,
        "batch": times.conditions.batch,
        "threads": times.conditions.threads,
        "dtype": times.conditions.dtype,
        "noise": measured.noise,
        "error": measured.error,
        "warning": measured.warning,
        "smallest_ms": times.cost(space, space.smallest) / 1e6,
        "seconds": table.seconds,
        "out": str(table.path),
    }
    title = f"{options.model} on {'x'.join(map(str, shape))}"
    return LatencyOutcome(title=title, result=result)
