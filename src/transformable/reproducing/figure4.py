"""Figure 4: cost and discrepancy while four strategies search, without and with the cost penalty.

{channel-wise interpolation, zero padding} x {Gumbel samples, plain softmax mixture}.
"""

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from ..costing.budget import Budget
from ..costing.cost import macs
from ..data import Dataset, stratified
from ..searching.search import search
from ..settings import Align, Sampling, Searching
from ..tracing.space import Space
from ..training.session import Session

__all__ = ["BUDGET", "NAMES", "Strategy", "csv_of", "draw", "history_of", "some", "strategies"]

BUDGET = 0.5
LAMBDAS = (0.0, 2.0)
NAMES = {
    ("pool", "gumbel"): "interpolation, samples (the paper's)",
    ("pool", "softmax"): "interpolation, mixture",
    ("pad", "gumbel"): "padding, samples",
    ("pad", "softmax"): "padding, mixture",
}
COLOURS = dict(zip(NAMES, ("#0072b2", "#56b4e9", "#d55e00", "#e69f00"), strict=True))


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """How sizes are made differentiable, and the weight of the cost penalty."""

    align: Align
    sampling: Sampling
    pull: float

    @property
    def name(self) -> str:
        """
        >>> Strategy(align="pad", sampling="gumbel", pull=2.0).name
        'pad-gumbel-2'
        """
        return f"{self.align}-{self.sampling}-{self.pull:g}"

    def settings(self, base: Searching) -> Searching:
        """The settings of its search."""
        return replace(base, align=self.align, sampling=self.sampling, lambda_cost=self.pull)


def strategies(pulls: Sequence[float] = LAMBDAS) -> Iterator[Strategy]:
    """All eight, those without the cost penalty first."""
    for pull, (align, sampling) in itertools.product(pulls, NAMES):
        yield Strategy(align=align, sampling=sampling, pull=pull)  # type: ignore[arg-type]


def some(dataset: Dataset, count: int | None) -> Dataset:
    """The dataset with that many of its training images."""
    if count is None or count >= len(dataset.train):
        return dataset
    _, part = stratified(dataset.train.labels, count / len(dataset.train), 0)
    return replace(dataset, train=dataset.train.subset(part))


def history_of(
    model: nn.Module,
    dataset: Dataset,
    settings: Searching,
    session: Session,
    budget: float = BUDGET,
) -> dict[str, Any]:
    """Search; for each epoch, the cost as a share of the full network and the discrepancy."""
    space = Space.trace(model, dataset.info.input_shape)
    full = macs(space, space.full)
    found = search(model, dataset, Budget.of(budget, space), settings, session, space=space)
    rows = [
        {
            "step": row["step"],
            "expected": row["expected"] / full,
            "derived": row["derived"] / full,
            "discrepancy": row["discrepancy"],
            "accuracy": row["architecture_accuracy"],
        }
        for row in found.history
    ]
    return {"rows": rows, "how": found.derived.how, "final": found.derived.cost / full}


def csv_of(runs: Mapping[Strategy, Mapping[str, Any]]) -> str:
    """A line for each epoch of each search."""
    rows = [
        {"align": each.align, "sampling": each.sampling, "lambda": each.pull, **row}
        for each, found in runs.items()
        for row in found["rows"]
    ]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def draw(runs: Mapping[Strategy, Mapping[str, Any]], path: Path, budget: float = BUDGET) -> None:
    """The picture; it needs matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    pulls = sorted({each.pull for each in runs})
    figure, axes = plt.subplots(
        2, len(pulls), figsize=(9, 6), sharex=True, sharey="row", squeeze=False
    )
    for column, pull in enumerate(pulls):
        top, bottom = axes[0][column], axes[1][column]
        top.set_title(f"λ = {pull:g}")
        top.axhspan(0.95 * budget, 1.05 * budget, color="0.85", zorder=0)
        for each, found in runs.items():
            if each.pull != pull:
                continue
            strategy, rows = (each.align, each.sampling), found["rows"]
            look = {"color": COLOURS[strategy], "label": NAMES[strategy], "marker": "."}
            steps = [row["step"] for row in rows]
            top.plot(steps, [row["expected"] for row in rows], **look)
            top.plot(steps, [row["derived"] for row in rows], color=look["color"], linestyle=":")
            bottom.plot(steps, [row["discrepancy"] for row in rows], **look)
        bottom.set_xlabel("step")
        for axis in (top, bottom):
            axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("MACs, share of the full network\n(expected; dotted: derived)")
    axes[1][0].set_ylabel("discrepancy")
    axes[1][-1].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
