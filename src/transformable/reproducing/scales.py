"""How large a reproduction is: exactly the paper's, an evening on two cores, or a trial run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..methods import METHODS
from ..presets import PRESETS, paper_search
from ..settings import Distilling, Preset, Residual, Searching, Training

__all__ = ["FIGURE4", "SCALES", "STEPS", "TABLES", "Scale", "ScaleName"]

ScaleName = Literal["paper", "small", "smoke"]
TABLES = {
    "table1": "Table 1: structures and kinds of transfer",
    "table2": "Table 2: how many candidates a step draws",
    "table3": "Table 3: methods on CIFAR",
    "table4": "Table 4: methods on ImageNet",
}
FIGURE4 = "figure4"
STEPS = "table2-steps"
"""The part of table 2 that needs no training: time and memory of a search step."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """What the tables and the figure are run with."""

    preset: Preset
    """The settings of the trainings and of the search."""
    epochs: tuple[int, int, int] | None = None
    """Epochs of the unpruned network, the search and the small network (None: the preset's)."""
    residual: Residual
    tolerance: float
    """How far from the target the cost of a network may be, as a share of it."""
    networks: Mapping[str, tuple[str, ...]]
    """The networks of each table, and of the figure."""
    data: Mapping[str, tuple[str, ...]]
    """The datasets of each table, and of the figure; none where the user has to name one."""
    methods: tuple[str, ...]
    """Methods of tables 3 and 4 for which the paper has no figures there."""
    steps: int
    """Search steps that are timed for each |I| at the paper's geometry."""
    steps_batch: int = 256
    """Images of these steps."""
    figure4: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the searches of the figure that replace those of the paper."""
    figure4_images: int | None = None
    """Training images of these searches (None: all)."""

    def training(self, data: str) -> Training:
        """The training of the unpruned network."""
        settings = PRESETS[self.preset].teacher(data)
        return settings if self.epochs is None else replace(settings, epochs=self.epochs[0])

    def searching(self, data: str, select: int | None = None) -> Searching:
        """The search; with another |I| if that is given."""
        settings = PRESETS[self.preset].search(data)
        if self.epochs is not None:
            settings = replace(settings, epochs=self.epochs[1])
        return settings if select is None else replace(settings, select=select, force=True)

    def distilling(self, data: str) -> Distilling:
        """The training of the small networks, whatever they take over."""
        settings = PRESETS[self.preset].student(data)
        return settings if self.epochs is None else replace(settings, epochs=self.epochs[2])

    def strategy(self, data: str) -> Searching:
        """A search of figure 4, which is the paper's but for its length."""
        return replace(paper_search(data), **self.figure4)


def _same(value: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys((*TABLES, FIGURE4), (value,))


SCALES: dict[ScaleName, Scale] = {
    "paper": Scale(
        preset="paper",
        residual="project",
        tolerance=0.05,
        networks={
            **_same("resnet32"),
            "table3": ("resnet20", "resnet32", "resnet56", "resnet110", "resnet164"),
            "table4": ("resnet18", "resnet50"),
            "figure4": ("resnet56",),
        },
        data={
            **_same("cifar100"),
            "table2": ("cifar10",),
            "table3": ("cifar10", "cifar100"),
            "table4": (),
        },
        methods=tuple(METHODS),
        steps=20,
    ),
    "small": Scale(
        preset="scratch",
        epochs=(6, 2, 4),  # short, since there are dozens of runs
        residual="pad",
        tolerance=0.005,
        networks={
            **_same("resnet32"),
            "table3": ("resnet20",),
            "table4": ("resnet18",),
            "figure4": ("resnet20",),
        },
        data={
            **_same("cifar100:16"),
            "table2": ("cifar10:16",),
            "table3": ("cifar10:16", "cifar100:16"),
            "table4": ("cifar10:16",),
        },
        methods=(),
        steps=5,
        figure4={"epochs": 8, "batch_size": 32, "arch_lr": 0.05, "start": "even"},
        figure4_images=8_000,
    ),
    "smoke": Scale(
        preset="scratch",
        epochs=(1, 1, 1),
        residual="pad",
        tolerance=0.05,
        networks=_same("resnet20"),
        data=_same("digits"),
        methods=(),
        steps=1,
        steps_batch=8,
        figure4={"epochs": 1, "batch_size": 32, "start": "even"},
    ),
}
