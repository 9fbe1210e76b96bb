"""One trial of a comparison: a method, a budget and a seed, run by the same code as tas prune."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..pruning.conclude import conclude
from ..pruning.job import PruningJob
from ..pruning.steps import apply_method, train_student
from ..runs.progress_file import progress_kept
from ..runs.run_folder import Run, read_json
from ..settings import Transfer
from ..training.session import MOVABLE, Session

__all__ = ["Trial", "run_trial"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One method, one budget, one seed: a search, and a training for each kind of transfer.

    >>> Trial(method="pfec", budget="50%", seed=1).name
    'pfec-50-seed1'
    """

    method: str
    budget: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        method, budget = (re.sub(r"[^\w.]+", "", text) for text in (self.method, self.budget))
        return f"{method}-{budget}-seed{self.seed}"


def run_trial(
    job: PruningJob, transfers: Sequence[Transfer], teacher: Path, folder: Path, session: Session
) -> None:
    """Do what is left of a trial: the search once, then a student for each kind of transfer.

    ``teacher`` is the run folder of the teacher that all trials share; its weights are in the job.
    """
    before = read_json(teacher / "result.json")
    with (
        Run.open(folder, job.settings(method=job.method_name), may_differ=MOVABLE) as run,
        progress_kept(run, session.progress) as progress,
    ):
        run.start()
        session = replace(session, run=run, progress=progress)
        found, search_seconds = apply_method(job, session)
        shared = job.shared_search
        search = "../search" if shared is None else f"../../{shared.name}"
        for transfer in transfers:
            own = replace(
                job,
                distilling=replace(job.distilling, transfer=transfer),
                folders={"teacher": "../../teacher", "search": search},
            )

            def work(session: Session, job: PruningJob = own) -> dict[str, object]:
                if session.run is not None:
                    session.run.start()
                student, after = train_student(job, found, session)
                scores = {"before": before, "after": after}
                return conclude(job, found, student, scores, search_seconds, session)

            settings = own.settings(method=own.method_name, student=own.distilling)
            session.once(transfer, settings, work)
