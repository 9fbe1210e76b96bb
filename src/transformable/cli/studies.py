"""The runs of one study of ``tas reproduce``: a teacher, and the trials that share it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..atomic_files import write_whole
from ..comparing.comparison import Comparison
from ..comparing.trials import Trial
from ..reproducing.costs import Pace, Work, batch_epochs, measure_pace
from ..reproducing.lines import PUBLISHED, Run
from ..reproducing.plan import Batch, Study
from ..reproducing.scales import SCALES, Scale
from ..runs.progress_file import end_recorded
from ..runs.run_folder import Run as RunFolder
from ..runs.run_folder import read_json
from ..settings import Training
from .compare import plan_comparison, run_what_is_left, train_shared_teacher, trial_work
from .jobs import load_data_and_model, make_session
from .options import MAY_DIFFER, Train
from .pruning_options import Compare
from .reproducing_options import Reproduce
from .train import train

__all__ = ["StudyRuns"]


@dataclass(frozen=True, kw_only=True)
class StudyTrials(Compare):
    """The trials of a study: as in the paper, all small networks are trained equally long."""

    # the command: folders of before name this class
    may_grow: ClassVar[frozenset[str]] = Compare.may_grow | {"budget", "command", "teacher"}

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "command": "reproduce"}

    def all_passes(self) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class StudyRuns:
    """A study with the options of the command; its runs are kept in a folder of its own."""

    options: Reproduce
    study: Study
    out: Path
    """The folder of the whole reproduction."""
    command: str
    paces: dict[str, Pace]
    """How fast the unpruned networks learn, by the study of their teacher: measured once."""

    @property
    def folder(self) -> Path:
        return self.out / self.study.name

    @property
    def scale(self) -> Scale:
        return SCALES[self.options.scale]

    @cached_property
    def comparisons(self) -> list[tuple[StudyTrials, Comparison]]:
        """The trials of each batch; what cannot be run is refused here."""
        return [
            (options, plan_comparison(options, [options.budget], self.folder, self.command))
            for options in map(self.trial_options, self.study.batches)
        ]

    @cached_property
    def published(self) -> Comparison:
        """The trials of published networks."""
        seeds = range(self.options.seed, self.options.seed + self.options.seeds)
        return Comparison(
            folder=self.folder,
            trials=[
                Trial(method=PUBLISHED, budget=name, seed=seed)
                for name in self.study.published
                for seed in seeds
            ],
            transfers=["none"],
            metric="macs",
            jobs=self.options.jobs,
            facts={"teacher": {}, "targets": {}},
        )

    def run(self) -> None:
        """Train the teacher and do the trials that are left."""
        options = self.trial_options()
        may_differ = MAY_DIFFER | options.may_grow
        with (
            RunFolder.open(self.folder, options.settings(), may_differ=may_differ) as run,
            end_recorded(self.folder),
        ):
            run.start()
            self._train_teacher(run)
            for trials, comparison in self.comparisons:
                run_what_is_left(trial_work(comparison), trials, comparison)
            if self.study.published:
                run_what_is_left(execute_published, self._published_options(), self.published)
            self._conclude()

    def _train_teacher(self, run: RunFolder) -> None:
        """Train the teacher; or take that of the study that this one shares it with."""
        options = self.trial_options()
        if self.study.teacher != self.study.name:
            options = replace(options, teacher=str(self.out / self.study.teacher))
        comparison = plan_comparison(options, [options.budget], self.folder, self.command)
        train_shared_teacher(options, comparison, run)

    def _conclude(self) -> None:
        """Write the report of the study, a comparison of all its trials."""
        if not self.comparisons:
            return
        parts = [comparison for _, comparison in self.comparisons]
        targets = {name: t for part in parts for name, t in part.facts["targets"].items()}
        whole = replace(parts[0], facts={**parts[0].facts, "targets": targets})
        rows = [row for part in parts for row in part.rows()]
        if any(row["state"] == "done" for row in rows):
            whole.conclude(rows)

    def rows(self) -> dict[Run, list[dict[str, Any]]]:
        """The rows of all runs of the study so far, one for each seed."""
        found: dict[Run, list[dict[str, Any]]] = {}
        where: dict[str, Any] = {
            "model": self.study.model,
            "data": self.study.data,
            "select": self.study.select,
        }
        for comparison in (*(part for _, part in self.comparisons), self.published):
            for row in comparison.rows():
                how = {name: row[name] for name in ("method", "budget", "transfer")}
                found.setdefault(Run(**where, **how), []).append(row)
        return found

    def teacher(self) -> Mapping[str, Any]:
        """The scores and the MACs of the unpruned network, as far as they are known."""
        path = self.folder / "teacher" / "result.json"
        scores = read_json(path) if path.exists() else {}
        known = {name: scores.get(name) for name in ("accuracy", "top5")}
        return {**known, "macs": self.pace.macs, "train_seconds": scores.get("seconds") or None}

    @property
    def pace(self) -> Pace:
        """How fast the unpruned network learns on this machine."""
        if self.study.teacher not in self.paces:
            options = self.trial_options()
            dataset, model = load_data_and_model(options)
            fabric = make_session(options).fabric
            self.paces[self.study.teacher] = measure_pace(model, dataset, options.train, fabric)
        return self.paces[self.study.teacher]

    def works(self) -> Iterator[Work]:
        """The runs of the study, and what each of them costs."""
        study, scale, seeds = self.study, self.scale, self.options.seeds

        def work(what: str, runs: int, done: int, epochs: float) -> Work:
            name = study.name
            return Work(study=name, what=what, runs=runs, done=done, epochs=epochs, pace=self.pace)

        if study.teacher == study.name:
            there = (self.folder / "teacher" / "result.json").exists()
            yield work("unpruned", 1, int(there), scale.training(study.data).epochs)
        for batch, (_, comparison) in zip(study.batches, self.comparisons, strict=True):
            for method in batch.methods:
                done = [comparison.is_done(t) for t in comparison.trials if t.method == method]
                what = f"{method} to {batch.budget}: {', '.join(batch.transfers)}"
                yield work(what, seeds, sum(done), batch_epochs(batch, method, scale, study.data))
        for name in study.published:
            done = [self.published.is_done(t) for t in self.published.trials if t.budget == name]
            # as if it were not smaller
            yield work(f"published {name}", seeds, sum(done), scale.distilling(study.data).epochs)

    def trial_options(self, batch: Batch | None = None) -> StudyTrials:
        """The options of the trials of a batch; without one, those of the teacher."""
        scale, data = self.scale, self.study.data
        trials: dict[str, Any] = {}
        if batch is not None:
            methods, transfers = ",".join(batch.methods), ",".join(batch.transfers)
            trials = {"methods": methods, "budget": batch.budget, "transfer": transfers}
        return StudyTrials(
            **self._common(),
            model=self.study.model,
            preset=scale.preset,
            seeds=self.options.seeds,
            jobs=self.options.jobs,
            train=scale.training(data),
            search=scale.searching(data, self.study.select),
            student=scale.distilling(data),
            residual=scale.residual,
            tolerance=scale.tolerance,
            **trials,
        )

    def _published_options(self) -> Train:
        """The options by which a published network is trained: the schedule of all others."""
        student = self.scale.distilling(self.study.data)
        schedule = {name: getattr(student, name) for name in Training.__dataclass_fields__}
        return Train(**self._common(), preset=self.scale.preset, **schedule)

    def _common(self) -> dict[str, Any]:
        options = self.options
        photos = self.study.data.startswith("folder:")
        names = ("data_dir", "download", "seed", "device", "precision", "workers")
        return {
            **{name: getattr(options, name) for name in (*names, "checkpoint_seconds")},
            "data": self.study.data,
            "image_size": options.image_size if photos else None,
        }


def execute_published(options: Train, trial: Trial, folder: Path) -> None:
    """Train a published network in a process of its own, and keep its result as a trial does."""
    out = folder / "none"
    outcome = train(
        replace(options, published=trial.budget, seed=trial.seed, out=str(out / "student")), ""
    )
    assert outcome is not None
    found = outcome.result
    result = {
        "after": {name: found[name] for name in ("accuracy", "top5", "macs", "params")},
        "seconds": {"student": found["seconds"]},
        "passes": {"student": found["epochs"]},
    }
    write_whole(out / "result.json", json.dumps(result, indent=2) + "\n")
