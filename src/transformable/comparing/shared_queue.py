"""The trials of a sweep as an Optuna study, which many processes can share."""

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..extras import is_installed
from ..runs.compare_settings import first_difference, flat_settings
from .trials import Trial

if TYPE_CHECKING:
    import optuna

__all__ = ["SharedQueue", "available", "hide_password"]

HEARTBEAT_SECONDS = 10
"""Time between two heartbeats of the process that works on a trial."""
GRACE_SECONDS = 60
"""Time without a heartbeat after which a trial is given to another process."""


def available() -> bool:
    """Whether Optuna is installed."""
    return is_installed("sweep")


class SharedQueue:
    """Assigns each trial to one process only.

    The database takes care that a trial is enqueued as a whole and taken by one process alone. Two
    processes that enqueue the same trial at once do no harm: whoever takes the second one sees that
    it is a duplicate and drops it.
    """

    def __init__(
        self, url: str, name: str, trials: Sequence[Trial], settings: Mapping[str, Any]
    ) -> None:
        import optuna

        self._optuna, self._states = optuna, optuna.trial.TrialState
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
        try:
            with warnings.catch_warnings(action="ignore"):  # heartbeats are experimental
                self._storage = optuna.storages.RDBStorage(
                    url,
                    engine_kwargs=options,
                    heartbeat_interval=HEARTBEAT_SECONDS,
                    grace_period=GRACE_SECONDS,
                    heartbeat_stale_trial_callback=_enqueue_again,
                )
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=name,
                directions=["maximize", "minimize"],
                load_if_exists=True,
            )
        except Exception as error:  # every database has errors of its own
            reason = str(error).splitlines()[0]
            place = hide_password(url)
            raise ValueError(f"cannot open the study in storage {place!r}: {reason}") from error
        self._wanted = tuple(trials)
        self._taken: dict[Trial, optuna.Trial] = {}
        self._last_heartbeat = 0.0
        mine = flat_settings(settings)
        if difference := first_difference(self._study.user_attrs.get("settings", mine), mine):
            raise ValueError(
                f"study {name!r} belongs to another sweep: {difference}; "
                "choose another --study or --storage"
            )
        self._study.set_user_attr("settings", mine)

    def enqueue_missing(self) -> None:
        """Enqueue the wanted trials that nobody has done, is doing or has enqueued."""
        there = {_trial_of(each) for each in self._live_trials()}
        for trial in self._wanted:
            if trial not in there:
                _enqueue(self._study, trial)

    def take(self) -> Trial | None:
        """Take a wanted trial out of the queue for this process; None if there is none."""
        found, others = None, []
        while found is None and self._any_wanted(self._states.WAITING):
            with warnings.catch_warnings(action="ignore"):
                taken = self._study.ask()
            self._storage.record_heartbeat(taken._trial_id)
            trial = _trial_of(taken)
            twice = trial is not None and self._is_duplicate(taken.number, trial)
            if trial in self._wanted and not twice:
                self._taken[trial] = taken
                found = trial
                continue
            self._study.tell(taken, state=self._states.PRUNED)
            if trial is not None and not twice:
                others.append(trial)
        for trial in others:  # another process wants them
            _enqueue(self._study, trial)
        return found

    def _any_wanted(self, *states: Any) -> bool:
        return any(_trial_of(each) in self._wanted for each in self._with_states(*states))

    def _is_duplicate(self, number: int, trial: Trial) -> bool:
        """Whether the same trial is earlier in the study."""
        return any(
            each.number < number and _trial_of(each) == trial for each in self._live_trials()
        )

    def _live_trials(self) -> list[Any]:
        """Trials that are in the queue, running or done."""
        states = self._states
        return self._with_states(states.WAITING, states.RUNNING, states.COMPLETE)

    def finish(self, trial: Trial, rows: list[dict[str, Any]], reason: str | None) -> None:
        """Record the rows of a trial of this process, or that it failed."""
        taken = self._taken.pop(trial)
        # after too long a pause others may have taken it over, and then theirs counts
        with suppress(self._optuna.exceptions.UpdateFinishedTrialError):
            taken.set_user_attr("rows", rows)
        if reason is not None:
            self._study.tell(taken, state=self._states.FAIL, skip_if_finished=True)
            return
        best = max(rows, key=lambda row: row["accuracy"])
        self._study.tell(taken, [best["accuracy"], best["cost"]], skip_if_finished=True)

    def heartbeat(self) -> None:
        """Record that this process still works on its trials; enqueue others' stale ones again."""
        if time.monotonic() - self._last_heartbeat < HEARTBEAT_SECONDS:
            return
        self._last_heartbeat = time.monotonic()
        for taken in self._taken.values():
            self._storage.record_heartbeat(taken._trial_id)
        with warnings.catch_warnings(action="ignore"):
            self._optuna.storages.fail_stale_trials(self._study)

    def give_back(self) -> None:
        """Enqueue again what this process has taken and not finished."""
        for trial, taken in self._taken.items():
            self._study.tell(taken, state=self._states.FAIL, skip_if_finished=True)
            _enqueue(self._study, trial)
        self._taken = {}

    def unfinished(self) -> bool:
        """Whether a wanted trial is still waiting or running, here or elsewhere."""
        return self._any_wanted(self._states.WAITING, self._states.RUNNING)

    def rows(self) -> dict[Trial, list[dict[str, Any]]]:
        """The rows of the trials that have ended, whichever process ran them."""
        return {
            trial: each.user_attrs["rows"]
            for each in self._with_states(self._states.COMPLETE, self._states.FAIL)
            if (trial := _trial_of(each)) is not None and "rows" in each.user_attrs
        }

    def _with_states(self, *states: Any) -> list[Any]:
        return self._study.get_trials(deepcopy=False, states=states)


def _trial_of(each: Any) -> Trial | None:
    attrs = {name: each.user_attrs.get(name) for name in ("method", "budget", "seed")}
    return None if None in attrs.values() else Trial(**attrs)


def _enqueue_again(study: "optuna.Study", stale: Any) -> None:
    """Enqueue a trial again after its process has ended."""
    trial = _trial_of(stale)
    if trial is not None:
        _enqueue(study, trial)


def _enqueue(study: "optuna.Study", trial: Trial) -> None:
    study.enqueue_trial({}, user_attrs=vars(trial))


def hide_password(url: str) -> str:
    """A URL without its password.

    >>> hide_password("mysql://me:secret@host/base"), hide_password("sqlite:///study.db")
    ('mysql://me:***@host/base', 'sqlite:///study.db')
    """
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", url)
