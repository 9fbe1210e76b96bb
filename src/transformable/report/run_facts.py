"""What the report of one pruning run is made from: the content of its folder, typed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Choice", "Layer", "Measures", "MetricRows", "RunFacts", "Speed", "Target", "Timing"]

MetricRows = Sequence[Mapping[str, float | None]]
"""A metrics.csv: a mapping for each epoch; an empty cell is None."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """A network in numbers; None where something was not measured."""

    accuracy: float
    top5: float | None
    macs: int
    params: int
    bytes: int | None
    latency_ms: float | None

    def cost(self, metric: str) -> int:
        return self.macs if metric == "macs" else self.params


@dataclass(frozen=True, kw_only=True)
class Target:
    """The budget, and the band around it that counts as met."""

    metric: str
    value: float
    low: int
    high: int


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
class Timing:
    """The median of repeated measurements, and the quartiles around it."""

    median_ms: float
    low_ms: float
    high_ms: float


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Both networks in one engine at one batch size."""

    engine: str
    batch: int
    before: Timing
    after: Timing


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The probabilities of the sizes of one layer or stage during the search."""

    name: str
    unit: str
    """``channels`` or ``blocks``."""
    sizes: Sequence[int]
    probabilities: Sequence[Sequence[float]]
    """For each epoch the probability of each size."""
    chosen: int | None
    dropped: bool
    """Whether the layer went with its block, so that the chosen size did not matter."""


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
    before: Measures
    after: Measures
    target: Target
    residual: str
    transfer: str
    speed: Sequence[Speed]
    faster: str
    layers: Sequence[Layer]
    seconds: Mapping[str, float]
    environment: Mapping[str, Any]
    config: Mapping[str, Any]
    teacher: MetricRows
    search: MetricRows
    student: MetricRows
    epochs: Sequence[int]
    """The epochs whose distributions were kept."""
    choices: Sequence[Choice]

    @property
    def title(self) -> str:
        by = "" if self.method == "tas" else f" by {self.method}"
        return f"{self.model} on {self.data}, pruned{by}"

    @property
    def met(self) -> bool:
        """Whether the cost of the small network is inside the band."""
        return self.target.low <= self.after.cost(self.target.metric) <= self.target.high
