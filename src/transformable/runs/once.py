"""The parts of a long job, each in a run folder of its own inside the folder of the job."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric

from ..cli.arguments import Job
from .run_folder import Run

__all__ = ["Stages"]


class Stages:
    """Does each part once: one that is complete is not done again.

    Without a run, as in all processes but the first, nothing is kept; but all processes go the way
    of the first. One that another process is doing is refused, or waited for.
    """

    def __init__(self, run: Run | None, fabric: Fabric, *, wait: bool = False) -> None:
        self._run, self._fabric = run, fabric
        self._wait = wait

    def once(
        self, name: str, config: Job, work: Callable[[Run | None], dict[str, Any]]
    ) -> tuple[dict[str, Any], Path | None]:
        """The result of a part and the folder that it is in, if there is one."""
        folder = None if self._run is None else self._run.folder / name
        opened = (
            contextlib.nullcontext()
            if folder is None
            else Run.open(folder, config, wait=self._wait)
        )
        with opened as inner:
            result = self._fabric.broadcast(None if inner is None else inner.result())
            if result is None:
                result = work(inner)
                if inner is not None:
                    inner.save_result(result)
        return result, self._fabric.broadcast(folder)
