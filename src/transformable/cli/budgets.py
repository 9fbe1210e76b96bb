"""Budgets from the options of a command, with the latencies that they need."""

import sys
from functools import cached_property
from pathlib import Path

from lightning_fabric import Fabric
from torch import nn

from ..costing.budget import Budget, Limit, OutOfReachError, limit_of
from ..costing.latency import Latency
from ..data import Info
from ..launch import is_first_process
from ..timing.divisors import paying_divisor
from ..timing.runtimes import check_installed
from ..timing.table_file import conditions_here, find_latency
from ..tracing.space import Space
from ..training.devices import make_fabric
from ..training.processes import from_first, measured_by_first
from .options import Search
from .pruning_options import PruningOptions

__all__ = ["BudgetMaker", "trace_space"]

LATENCY_TOLERANCE = 0.05
"""The narrowest band of a latency: measurements are not more precise than that."""


def trace_space(
    options: Search | PruningOptions, model: nn.Module, info: Info, fabric: Fabric | None = None
) -> Space:
    """The sizes that a network may have according to the options."""
    options.check_times()

    def trace(divisor: int) -> Space:
        return Space.trace(
            model,
            info.input_shape,
            ratios=options.ratios,
            divisor=divisor,
            depth_step=options.depth_step,
            residual=options.residual,
            search=options.sizes,
            leaf=options.leaf,
        )

    if options.divisor != "auto":
        return trace(int(options.divisor))
    fabric = fabric or make_fabric(options.device)
    conditions = conditions_here(
        options.runtime, options.latency_batch, options.latency_threads, fabric.device
    )
    device = fabric.device
    found = from_first(fabric, lambda: paying_divisor(model, trace(1), conditions, device))
    _say(f"divisor auto: {found}")
    return trace(found.divisor)


class BudgetMaker:
    """Makes budgets for one network; a latency is measured once, when it is needed first."""

    def __init__(
        self,
        options: Search | PruningOptions,
        model: nn.Module,
        space: Space,
        fabric: Fabric | None = None,
    ) -> None:
        self.options, self.model, self.space, self.fabric = options, model, space, fabric

    def make(self, amount: str) -> Budget:
        """The budget of an amount such as 0.5, 20M or 3ms."""
        try:
            return self._make(amount)
        except OutOfReachError as error:
            if self.options.divisor != "auto":
                raise
            raise OutOfReachError(
                f"{error}; --divisor auto chose the widths: a smaller --divisor has more of them"
            ) from None

    def _make(self, amount: str) -> Budget:
        options, metric = self.options, self.options.metric
        is_time = metric == "latency"
        # bad input is refused before anything is measured
        if not is_time:
            Budget.of(amount, self.space, metric=metric, tolerance=options.tolerance)
        return Budget.of(
            amount,
            self.space,
            metric=metric,
            tolerance=max(options.tolerance, LATENCY_TOLERANCE) if is_time else options.tolerance,
            latency=self.latency if is_time else None,
            at_most=self._limits(),
        )

    def _limits(self) -> tuple[Limit, ...]:
        limits = []
        for metric, amount in self.options.limits().items():
            latency = self.latency if metric == "latency" else None
            limits.append(limit_of(amount, self.space, metric, latency))  # type: ignore[arg-type]
        return tuple(limits)

    @cached_property
    def latency(self) -> Latency:
        """The times of the parts of the network, from a file, from the cache, or measured now."""
        options = self.options
        check_installed(options.runtime)
        fabric = self.fabric or make_fabric(options.device)
        path = None if options.latency_table is None else Path(options.latency_table)
        if path is not None and not path.exists():
            raise ValueError(f"{path} does not exist; tas latency --out {path} measures it")
        conditions = conditions_here(
            options.runtime, options.latency_batch, options.latency_threads, fabric.device
        )

        def find() -> Latency:
            table = find_latency(
                self.model,
                self.space,
                conditions,
                path=path,
                machine=options.latency_machine,
                device=fabric.device,
                progress=_progress,
            )
            if table.measured.warning:
                _say(table.measured.warning)
            return table.measured.latency

        return measured_by_first(fabric, find)


def _progress(done: int, total: int) -> None:
    if done == 0:
        _say(f"measuring latencies: {total} networks of other widths, once for this network")


def _say(text: str) -> None:
    if is_first_process():
        print(f"tas: {text}", file=sys.stderr)
