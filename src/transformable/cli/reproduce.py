"""What ``tas reproduce`` does: plans the runs of tables, runs what is left, lays them out."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group
from rich.table import Table as RichTable

from ..presets import paper_search
from ..report.formatting import count, counted, duration
from ..reproducing.costs import Pace, Work, total_seconds
from ..reproducing.layout import Results, Table
from ..reproducing.lines import Section, sections
from ..reproducing.pages import write_table
from ..reproducing.paper import paper_rows
from ..reproducing.plan import Study, studies_of
from ..reproducing.scales import FIGURE4, SCALES, STEPS, TABLES, Scale
from ..reproducing.search_steps import measure_search_steps, steps_table
from ..runs.once import once
from ..runs.progress import Progress
from ..runs.progress_file import progress_kept
from ..runs.run_folder import Run as RunFolder
from ..timing.machine import describe_machine
from .outcome import Outcome
from .pruning_options import split
from .reproducing_options import Reproduce
from .strategies import StrategyRuns
from .studies import StudyRuns

__all__ = ["reproduce"]


def reproduce(options: Reproduce, command: str) -> Outcome:
    """Run what is left of the tables and the figure, and write them."""
    whole = Reproduction(
        options=options,
        out=Path(options.out or f"runs/reproduce-{options.scale}"),
        command=command,
    )
    plan = whole.plan()
    if options.dry_run:
        return plan
    Console(stderr=True).print(plan.show())
    with (
        RunFolder.open(whole.out, options.settings()) as run,
        progress_kept(run, Progress()) as progress,
    ):
        run.start()
        files = whole.run(progress)
    return ReproduceOutcome(
        title=f"the paper's {', '.join(options.targets())}, at the scale {options.scale}",
        result={"files": files, "out": str(whole.out)},
    )


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """The tables and the figure that the options ask for."""

    options: Reproduce
    out: Path
    command: str

    @property
    def scale(self) -> Scale:
        return SCALES[self.options.scale]

    @cached_property
    def _paces(self) -> dict[str, Pace]:
        return {}

    @cached_property
    def tables(self) -> dict[str, list[Section]]:
        return {
            name: list(sections(name, self.scale, self.options.networks(), self._data(name)))
            for name in self.options.targets()
            if name in TABLES
        }

    @cached_property
    def figures(self) -> list[StrategyRuns]:
        if FIGURE4 not in self.options.targets():
            return []
        networks = self.options.networks() or self.scale.networks[FIGURE4]
        return [
            StrategyRuns(runs=self._runs(Study(model=model, data=data)))
            for model, data in product(networks, self._data(FIGURE4))
        ]

    @cached_property
    def studies(self) -> list[StudyRuns]:
        found = [section for each in self.tables.values() for section in each]
        teachers = [
            (each.runs.study.model, each.runs.study.data)
            for each in self.figures
            if each.needs_teacher
        ]
        return [self._runs(study) for study in studies_of(found, teachers)]

    @property
    def counts_steps(self) -> bool:
        """Whether the search steps of table 2 are measured."""
        return bool({"table2", STEPS} & set(self.options.targets()))

    @property
    def _has_steps(self) -> bool:
        return (self.out / STEPS / "result.json").exists()

    def _runs(self, study: Study) -> StudyRuns:
        return StudyRuns(
            options=self.options,
            study=study,
            out=self.out,
            command=self.command,
            paces=self._paces,
        )

    def _data(self, target: str) -> list[str]:
        given = self.options.photos if target == "table4" else self.options.data
        data = split(given) if given else list(self.scale.data[target])
        if not data:
            raise ValueError("table4 at the scale paper needs ImageNet: give --photos folder:PATH")
        return data

    def plan(self) -> "PlanOutcome":
        """The runs that there are; bad input is refused here, before anything is computed."""
        works = [work for study in self.studies for work in study.works()]
        works += [work for figure in self.figures for work in figure.works()]
        targets = ", ".join(self.options.targets())
        return PlanOutcome(
            title=f"{targets} at the scale {self.options.scale}, in {self.out}",
            result={
                "plan": [{**asdict(work), "seconds": work.seconds} for work in works],
                "seconds": total_seconds(works, self.options.jobs),
                "out": str(self.out),
            },
            works=works,
            steps=self.scale.steps if self.counts_steps and not self._has_steps else 0,
        )

    def run(self, progress: Progress) -> dict[str, dict[str, str]]:
        """Do all that is left; the tables are written after each study. Returns all files.

        The progress counts the studies and figures.
        """
        parts = [each.study.name for each in self.studies]
        parts += [each.folder.name for each in self.figures]
        if self.counts_steps:
            progress.start(STEPS, len(parts), 0)
        more = {"table2": [steps_table(self._steps())]} if self.counts_steps else {}
        files = self._write(more)
        for number, study in enumerate(self.studies):
            progress.start(parts[number], len(parts), number)
            study.run()
            files = self._write(more)
        for number, figure in enumerate(self.figures, len(self.studies)):
            progress.start(parts[number], len(parts), number)
            files[figure.folder.name] = figure.run()
        progress.advance(len(parts))
        return files

    def _steps(self) -> list[dict[str, Any]]:
        """The search steps of table 2, measured once."""
        scale, device = self.scale, self.options.device
        selects = [row.select for row in paper_rows("table2") if row.select is not None]
        geometry = {"steps": scale.steps, "batch_size": scale.steps_batch, "device": device}

        def work(run: RunFolder | None) -> dict[str, Any]:
            print("measuring search steps at the paper's geometry", file=sys.stderr, flush=True)
            settings = replace(paper_search("cifar10"), batch_size=scale.steps_batch)
            found = measure_search_steps(selects, scale.steps, device, settings)
            return {"measured": found, "threads": torch.get_num_threads(), **describe_machine()}

        measured: list[dict[str, Any]] = once(self.out / STEPS, geometry, work)["measured"]
        return measured

    def _write(self, more: Mapping[str, Sequence[Table]]) -> dict[str, dict[str, str]]:
        """Write the tables with what is there."""
        results = Results(
            rows={run: rows for each in self.studies for run, rows in each.rows().items()},
            teachers={
                (each.study.model, each.study.data): each.teacher()
                for each in self.studies
                if each.study.teacher == each.study.name
            },
        )
        # without the trainings, table 2 is its search steps
        wanted = {**{name: [] for name in more}, **self.tables}
        return {
            name: write_table(self.out, name, found, results, self.command, more.get(name, ()))
            for name, found in wanted.items()
        }


@dataclass(frozen=True, kw_only=True)
class PlanOutcome(Outcome):
    """The runs, and what they cost."""

    works: Sequence[Work]
    steps: int
    """Search steps that are still to be measured for each |I| of table 2."""

    def show(self) -> Group:
        table = RichTable()
        for name in ("network and data", "runs of"):
            table.add_column(name, overflow="fold")
        for name in ("to do", "MACs", "images", "epochs", "time"):
            table.add_column(name, justify="right")
        for work in self.works:
            left = work.runs - work.done
            table.add_row(
                work.study,
                work.what,
                f"{left} of {work.runs}",
                count(work.pace.macs),
                f"{work.pace.images:,}",
                f"{work.epochs:.1f}",
                duration(work.seconds) if left else "done",
            )
        left = sum(work.runs - work.done for work in self.works)
        total = self.result["seconds"]
        return self.page(
            table,
            "epochs: of one run, in epochs of the unpruned network (a network of half of its MACs "
            "counts half, a forward pass alone a third)",
            f"{counted(left, 'run')} to do: about {duration(total)} on this machine, from a "
            "training step that was measured now",
            *self._about_steps(),
        )

    def _about_steps(self) -> list[str]:
        if not self.steps:
            return []
        steps = counted(self.steps, "search step")
        return [f"and {steps} for each |I| of table 2 at the paper's geometry, a few minutes"]


@dataclass(frozen=True, kw_only=True)
class ReproduceOutcome(Outcome):
    """The files of the tables."""

    def show(self) -> Group:
        lines = [path for files in self.result["files"].values() for path in files.values()]
        return Group(self.title, *lines)
