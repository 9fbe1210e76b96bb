"""What ``tas search --dry-run`` does."""

import math
from dataclasses import dataclass

from rich.console import Group
from torch import nn

from ..costing.budget import Budget
from ..data import Dataset
from ..report.formatting import duration
from ..searching.dry_run import estimate_search
from ..tracing.space import Space
from ..training.session import Session
from .options import Search
from .outcome import Outcome

__all__ = ["dry_run"]


@dataclass(frozen=True, kw_only=True)
class Plan(Outcome):
    """What there is to search, and the time and memory that the search would take."""

    def show(self) -> Group:
        seen, target = self.result, self.result["target"]
        metric = target["metric"]
        rows = (
            ("shapes", f"{seen['shapes']} ({seen['layers']} layers, {seen['stages']} stages)"),
            (f"full {metric}", f"{seen['full_' + metric]:,}"),
            (f"smallest {metric}", f"{seen['smallest_' + metric]:,}"),
            (f"target {metric}", f"{target['low']:,} to {target['high']:,}"),
            ("steps", f"{seen['steps']:,} of {seen['seconds_per_step']:.2f} s"),
            ("time", f"about {duration(seen['seconds'])}"),
            ("memory", f"about {seen['memory_bytes'] / 2**20:,.0f} MiB"),
        )
        return self.table(rows)


def dry_run(
    options: Search,
    model: nn.Module,
    dataset: Dataset,
    space: Space,
    budget: Budget,
    session: Session,
) -> Plan:
    """Do a few steps of the search, and estimate the whole from them."""
    seen = estimate_search(model, dataset, budget, options, space=space, fabric=session.fabric)
    seconds = seen.steps * seen.seconds_per_step
    if not options.weights:
        # a plain step takes about half as long
        plain = dataset.train.steps(options.batch_size) * options.pretrain_epochs
        seconds += plain * seen.seconds_per_step / 2
    result = {
        "shapes": f"10^{math.log10(space.count):.1f}",
        "layers": len(space.widths),
        "stages": len(space.depths),
        f"smallest_{budget.metric}": budget.cost(space, space.smallest),
        f"full_{budget.metric}": budget.cost(space, space.full),
        "target": budget.target(),
        "steps": seen.steps,
        "seconds_per_step": seen.seconds_per_step,
        "seconds": seconds,
        "memory_bytes": seen.memory,
    }
    return Plan(title=f"{options.model} on {options.data}: a search", result=result)
