"""The trials of a sweep as an Optuna study, which many processes can share."""

import re
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runs.run_folder import free_of
from ..settings import values
from .grid import Sweep, Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["Study", "available", "hidden"]

BEAT = 10
"""Seconds between two signs of life of whoever works on a trial."""
GRACE = 60
"""Seconds without one, after which the trial is given to others."""


def available() -> bool:
    """Whether Optuna is installed."""
    try:
        import optuna  # noqa: F401
    except ImportError:
        return False
    return True


class Study:
    """Gives each trial to one process only.

    A trial is put in line as one piece and taken out of it by one process alone; that is the
    database's doing. Two processes that put the same trial in line at once are no harm: whoever
    takes the later one sees the earlier one and lets it be.
    """

    def __init__(self, args: Sweep, folder: Path) -> None:
        import optuna

        self._optuna = optuna
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        url = args.storage or f"sqlite:///{(folder / 'study.db').resolve()}"
        options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
        try:
            with _own_heartbeats():
                self._storage = optuna.storages.RDBStorage(
                    url,
                    engine_kwargs=options,
                    heartbeat_interval=BEAT,
                    grace_period=GRACE,
                    heartbeat_stale_trial_callback=_again,
                )
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=args.study,
                directions=["maximize", "minimize"],
                load_if_exists=True,
            )
        except Exception as error:  # every database has errors of its own
            reason = str(error).splitlines()[0]
            place = hidden(url)
            raise ValueError(f"cannot open the study in storage {place!r}: {reason}") from error
        self._wanted = tuple(args.trials())
        self._mine: dict[Trial, optuna.Trial] = {}
        self._beaten = 0.0
        self._claim(args)

    def _claim(self, args: Sweep) -> None:
        """The study belongs to one set of settings."""
        mine = {n: v for n, v in values(args).items() if n not in free_of(args)}
        mine = {name: list(v) if isinstance(v, tuple) else v for name, v in mine.items()}
        theirs = self._study.user_attrs.setdefault("settings", mine)
        for name in {**mine, **theirs}:
            if mine.get(name) != theirs.get(name):
                raise ValueError(
                    f"study {args.study!r} belongs to another sweep: {name} is {theirs.get(name)} "
                    f"there and {mine.get(name)} here; choose another --study or --storage"
                )
        self._study.set_user_attr("settings", mine)

    def put(self) -> None:
        """Put in line what nobody has done or is doing."""
        there = {_named(each) for each in self._live()}
        for trial in self._wanted:
            if trial not in there:
                _enqueue(self._study, trial)

    def take(self) -> Trial | None:
        """A trial that is this process's own now; None if there is none in line for it."""
        states = self._optuna.trial.TrialState
        found, others = None, []
        while found is None and any(self._ours(each) for each in self._all((states.WAITING,))):
            with _own_heartbeats():
                taken = self._study.ask()
            self._storage.record_heartbeat(taken._trial_id)
            trial = _named(taken)
            twice = trial is not None and self._earlier(taken.number, trial)
            if trial in self._wanted and not twice:
                self._mine[trial] = taken
                found = trial
                continue
            self._study.tell(taken, state=states.PRUNED)
            if trial is not None and not twice:
                others.append(trial)
        for trial in others:  # somebody else wants them: back in line
            _enqueue(self._study, trial)
        return found

    def _ours(self, each: Any) -> bool:
        return _named(each) in self._wanted

    def _earlier(self, number: int, trial: Trial) -> bool:
        return any(each.number < number and _named(each) == trial for each in self._live())

    def _live(self) -> list[Any]:
        """Those in line, in work and done."""
        states = self._optuna.trial.TrialState
        return self._all((states.WAITING, states.RUNNING, states.COMPLETE))

    def finish(self, trial: Trial, rows: list[dict[str, Any]], reason: str | None) -> None:
        """Tell all others how a trial of this process went."""
        taken = self._mine.pop(trial)
        # after too long a pause others may have taken it over, and then theirs counts
        with suppress(self._optuna.exceptions.UpdateFinishedTrialError):
            taken.set_user_attr("rows", rows)
        if reason is not None:
            failed = self._optuna.trial.TrialState.FAIL
            self._study.tell(taken, state=failed, skip_if_finished=True)
            return
        best = max(rows, key=lambda row: row["accuracy"])
        self._study.tell(taken, [best["accuracy"], best["cost"]], skip_if_finished=True)

    def beat(self) -> None:
        """A sign of life for the trials of this process, and a look at those of others."""
        if time.monotonic() - self._beaten < BEAT:
            return
        self._beaten = time.monotonic()
        for taken in self._mine.values():
            self._storage.record_heartbeat(taken._trial_id)
        with _own_heartbeats():
            self._optuna.storages.fail_stale_trials(self._study)

    def leave(self) -> None:
        """Give back what is not finished."""
        failed = self._optuna.trial.TrialState.FAIL
        for trial, taken in self._mine.items():
            self._study.tell(taken, state=failed, skip_if_finished=True)
            _enqueue(self._study, trial)
        self._mine = {}

    def busy(self) -> bool:
        """Whether somebody still works on a trial of ours, or has to."""
        states = self._optuna.trial.TrialState
        return any(self._ours(each) for each in self._all((states.WAITING, states.RUNNING)))

    def rows(self) -> dict[Trial, list[dict[str, Any]]]:
        """What is known of the trials that have ended, whoever ran them."""
        states = self._optuna.trial.TrialState
        ended = self._all((states.COMPLETE, states.FAIL))
        return {
            trial: each.user_attrs["rows"]
            for each in ended
            if (trial := _named(each)) is not None and "rows" in each.user_attrs
        }

    def _all(self, states: Sequence[Any]) -> list[Any]:
        return self._study.get_trials(deepcopy=False, states=tuple(states))


@contextmanager
def _own_heartbeats() -> Iterator[None]:
    """Optuna warns that they are experimental, and of ways to do without them that we do not go."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _named(each: Any) -> Trial | None:
    attrs = {name: each.user_attrs.get(name) for name in ("method", "budget", "seed")}
    return None if None in attrs.values() else Trial(**attrs)


def _again(study: "optuna.Study", stale: Any) -> None:
    """Whoever worked on it is gone: back in line."""
    trial = _named(stale)
    if trial is not None:
        _enqueue(study, trial)


def _enqueue(study: "optuna.Study", trial: Trial) -> None:
    study.enqueue_trial({}, user_attrs=vars(trial))


def hidden(url: str) -> str:
    """A URL without its password.

    >>> hidden("mysql://me:secret@host/base"), hidden("sqlite:///study.db")
    ('mysql://me:***@host/base', 'sqlite:///study.db')
    """
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)
