"""What ``tas compare`` does."""

from pathlib import Path

from ..grid import Compare, Trial
from ..runs import Run, default_folder
from ..workers import run_trials
from .contest import Compared, Contest, work

__all__ = ["compare"]


def compare(args: Compare) -> Compared:
    """Run the trials that are not done, and tell of all."""
    folder = Path(args.out) if args.out else default_folder(args, "compare-")
    with Run.open(folder, args) as run:
        contest = Contest.of(args, folder)
        run.begin()
        contest.teach(run)
        left = iter([trial for trial in args.trials() if not contest.done(trial)])

        def following() -> Trial | None:
            trial = next(left, None)
            if trial is not None:
                contest.running.add(trial)
            return trial

        def finished(trial: Trial, reason: str | None) -> None:
            contest.running.remove(trial)
            contest.tell(trial, reason)

        with contest.shown(contest.rows) as draw:
            run_trials(args, folder, work, following, finished, draw)
        result = contest.conclude(contest.rows())
    return Compared(title=f"{args.model} on {args.data}", result=result)
