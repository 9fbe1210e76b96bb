"""The searches of figure 4 for ``tas reproduce``, each kept in a run folder of its own."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..atomic_files import write_whole
from ..reproducing.costs import Work
from ..reproducing.figure4 import csv_of, draw, history_of, some, strategies
from ..reproducing.scales import FIGURE4
from ..runs.run_folder import Run as RunFolder
from ..settings import plain_values
from ..training.session import Session
from .given_weights import load_trained
from .jobs import load_data_and_model, make_session
from .progress_bar import progress_bar
from .studies import StudyRuns

__all__ = ["StrategyRuns"]


@dataclass(frozen=True, kw_only=True)
class StrategyRuns:
    """The eight searches on the network and the images of a study."""

    runs: StudyRuns
    """The study; its teacher is where a search from trained weights starts."""

    @property
    def folder(self) -> Path:
        return self.runs.out / f"{FIGURE4}-{self.runs.study.name}"

    @property
    def needs_teacher(self) -> bool:
        return self.runs.scale.strategy(self.runs.study.data).start != "scratch"

    def works(self) -> Iterator[Work]:
        """The searches that there are, as one kind of run."""
        scale, pace = self.runs.scale, self.runs.pace
        done = sum((self.folder / s.name / "result.json").exists() for s in strategies())
        share = min(1.0, (scale.figure4_images or pace.images) / pace.images)
        yield Work(
            study=self.runs.study.name,
            what="figure 4: searches",
            runs=len(list(strategies())),
            done=done,
            epochs=scale.strategy(self.runs.study.data).epochs * share,
            pace=pace,
        )

    def run(self) -> dict[str, str]:
        """Do the searches that are left; returns the files that are written."""
        options, scale = self.runs.trial_options(), self.runs.scale
        base = scale.strategy(self.runs.study.data)
        dataset, model = load_data_and_model(options)
        dataset = some(dataset, scale.figure4_images)
        if self.needs_teacher:
            load_trained(model, options, str(self.runs.folder))
        found = {}
        with RunFolder.open(self.folder, options.source(), may_differ={"data_dir"}) as run:
            run.start()
            session = replace(make_session(options), run=run)
            for each in strategies():
                settings = each.settings(base)

                def work(session: Session, settings: Any = settings) -> dict[str, Any]:
                    return history_of(model, dataset, settings, session)

                with progress_bar() as bar:
                    named = replace(session, progress=bar).titled(each.name)
                    own = {**options.source(), "search": plain_values(settings)}
                    found[each], _ = named.once(each.name, own, work)
        name = f"{FIGURE4}-{self.runs.study.name}"
        files = {"csv": self.runs.out / f"{name}.csv"}
        write_whole(files["csv"], csv_of(found))
        if importlib.util.find_spec("matplotlib") is None:
            words = "the picture of figure 4 needs matplotlib: install it and run this again"
            print(words, file=sys.stderr, flush=True)
        else:
            files["png"] = self.runs.out / f"{name}.png"
            draw(found, files["png"])
        return {ending: str(path) for ending, path in files.items()}
