"""What every long call is given: the seed, the devices, the run folder, the progress."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric

from ..runs.once import once
from ..runs.progress import Progress, Titled
from ..runs.run_folder import Run
from .devices import make_fabric
from .divergence import TrainingName
from .joining import leave_at_exit
from .memory import return_freed_memory

__all__ = ["MOVABLE", "Session", "check_seed"]

MOVABLE = frozenset({"data_dir"})
"""Settings of a part of a job that may differ when it is continued: the images may have moved."""


def check_seed(seed: Any) -> None:
    """Raise a ValueError unless a seed is an integer.

    >>> check_seed("a")
    Traceback (most recent call last):
    ValueError: seed must be an integer, not 'a'
    """
    if not isinstance(seed, Integral) or isinstance(seed, bool):
        raise ValueError(f"seed must be an integer, not {seed!r}")


@dataclass(frozen=True, kw_only=True)
class Session:
    """How and where a training, a search or a whole job runs.

    >>> Session(seed=3).seed
    3
    """

    seed: int = 0
    """Decides the order of the images, their augmentation and everything else that is random."""
    run: Run | None = None
    """The folder where the work is kept, to continue from there after an interruption."""
    fabric: Fabric = field(default_factory=make_fabric)
    """The devices."""
    checkpoint_seconds: float = 30.0
    """The longest time between two checkpoints; there is one after each epoch too."""
    progress: Progress = field(default_factory=Progress)
    """Where the progress of the work is reported."""
    training: TrainingName = field(default_factory=TrainingName)
    """The name of the training in error messages."""

    def __post_init__(self) -> None:
        leave_at_exit()
        check_seed(self.seed)

    def rank(self) -> dict[str, int]:
        """The rank of this process and the number of processes, as arguments of the batches."""
        return {"rank": self.fabric.global_rank, "world": self.fabric.world_size}

    def titled(self, title: str, training: TrainingName | None = None) -> "Session":
        """The same session, whose progress has this title in front."""
        progress = Titled(title, self.progress)
        return replace(self, progress=progress, training=training or self.training)

    def once(
        self,
        name: str,
        settings: Mapping[str, Any],
        work: Callable[["Session"], dict[str, Any]],
        *,
        wait: bool = False,
    ) -> tuple[dict[str, Any], Path | None]:
        """Do a part of the work once, in a run folder of that name inside this one.

        The work is given a session of its own. Returns its result and its folder, if there is one.
        """
        folder = None if self.run is None else self.run.folder / name
        result = once(
            folder,
            settings,
            lambda run: work(replace(self, run=run)),
            may_differ=MOVABLE,
            wait=wait,
            share=self.fabric.broadcast,
        )
        return_freed_memory()
        return result, self.fabric.broadcast(folder)
