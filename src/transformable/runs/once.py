"""Do a piece of work once: what is finished in a run folder is not done again."""

from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from .run_folder import Run

__all__ = ["once"]


def once(
    folder: Path | None,
    settings: Mapping[str, Any],
    work: Callable[[Run | None], dict[str, Any]],
    *,
    may_differ: Collection[str] = (),
    wait: bool = False,
    share: Callable[[Any], Any] = lambda result: result,
) -> dict[str, Any]:
    """The result in a run folder, or, if there is none yet, that of the work, which is saved there.

    Without a folder nothing is saved. Where several processes do the work together, only the first
    has a folder, and ``share`` sends its content to the others. A folder that another process has
    open is refused, or waited for.
    """
    with (
        nullcontext()
        if folder is None
        else Run.open(folder, settings, may_differ=may_differ, wait=wait)
    ) as run:
        result: dict[str, Any] | None = share(None if run is None else run.result())
        if result is None:
            # the work starts the run once it has checked its input: bad input leaves no folder
            result = work(run)
            if run is not None:
                run.start()
                run.save_result(result)
    return result
