"""The stages of the whole job: teacher, search, student, and what is told of them.

Each stage is a run folder inside the folder of the job, and is done once.
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from ..atomic_files import weights_as_bytes, write_whole
from ..blueprint import Blueprint
from ..cli.arguments import Distill, Prune, Search, Train, job_of
from ..costing.budget import Budget
from ..data import Dataset
from ..networks import onnx_file
from ..networks.export import comparison_images, export
from ..networks.model_card import model_card
from ..networks.speed import measure_speed
from ..networks.weights import load_weights
from ..report import write_report
from ..runs.once import Stages
from ..runs.progress import Progress, Titled
from ..runs.run_folder import Run
from ..searching.derive import check_possible
from ..searching.search import halves, search
from ..settings import Distilling, Searching, Training
from ..shape import Shape
from ..slimming.slim import check_same_network
from ..tracing.space import Space
from ..training.checks import check_outputs
from ..training.distill import distill, small_network
from ..training.train import check_steps
from .summary import summarise
from .teacher import scores, teach

__all__ = ["Pipeline", "Pruned"]


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """A network made smaller."""

    model: nn.Module
    """The small network, trained: an ordinary module in evaluation mode."""
    teacher: nn.Module
    """The unpruned network, trained."""
    shape: Shape
    summary: dict[str, Any]
    """All numbers, before and after, as in result.json."""


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """What the stages work with."""

    model: nn.Module
    """Becomes the teacher."""
    dataset: Dataset
    space: Space
    budget: Budget
    trained: bool
    training: Training
    searching: Searching
    distilling: Distilling
    job: Prune
    recipe: Blueprint
    fabric: Fabric
    progress: Progress
    command: str = ""

    def __call__(self, run: Run | None) -> Pruned:
        """Do what is not done yet."""
        self.check()
        if run is not None:
            run.begin()
        stages = Stages(run, self.fabric)
        before = self._teach(stages)
        found = self._search(stages)
        shape = Shape.from_json(json.dumps(found["shape"]))
        student, after = self._transfer(stages, shape)
        summary = {} if run is None else run.result() or {}
        if not summary and self.fabric.global_rank == 0:
            tested = {"before": before, "after": after}
            summary = self._finish(run, student, shape, tested, found)
        return Pruned(model=student, teacher=self.model, shape=shape, summary=summary)

    def check(self) -> None:
        """Refuse what cannot be done before anything is."""
        info = self.dataset.info
        check_outputs(self.model, info)
        check_same_network(self.model, self.space)
        if self.space.input_shape != info.input_shape:
            raise ValueError(
                f"the space was traced for images of {self.space.input_shape}, and those of "
                f"{info.name} are {info.input_shape}"
            )
        check_possible(self.space, self.budget)
        world = self.job.devices
        for settings, split in (
            (self.training, self.dataset.train),
            (self.distilling, self.dataset.train),
            *((self.searching, half) for half in halves(self.dataset.train, self.job.seed)),
        ):
            check_steps(split, settings.batch_size, world)

    def _teach(self, stages: Stages) -> dict[str, Any]:
        return teach(
            stages,
            Train(**job_of(self.job), **vars(self.training)),
            self.model,
            self.dataset,
            trained=self.trained,
            recipe=self.recipe,
            **self._common("1/3 teacher"),
        )

    def _search(self, stages: Stages) -> dict[str, Any]:
        def work(run: Run | None) -> dict[str, Any]:
            if run is not None:
                run.begin()
                run.save_candidates(self.space)
            found = search(
                self.model,
                self.dataset,
                self.budget,
                self.searching,
                space=self.space,
                run=run,
                **self._common("2/3 search"),
            )
            if run is not None:
                run.save_shape(found.shape)
            return {
                "shape": json.loads(found.shape.to_json()),
                "derived_by": found.derived.how,
                "given_up": found.derived.given_up,
                "seconds": sum(row["seconds"] for row in found.history),
            }

        job = self.job
        shared = ("metric", "residual", "search", "ratios", "divisor", "depth_step", "budget")
        config = Search(
            **job_of(self.job),
            **vars(self.searching),
            **{name: getattr(job, name) for name in shared},
        )
        return stages.once("search", config, work)[0]

    def _transfer(self, stages: Stages, shape: Shape) -> tuple[nn.Module, dict[str, Any]]:
        settings, seed = self.distilling, self.job.seed
        student = small_network(
            self.model, self.space, shape, transfer=settings.transfer, sort=settings.sort, seed=seed
        )

        def work(run: Run | None) -> dict[str, Any]:
            if run is not None:
                run.begin()
                run.save_shape(shape)
                run.save_recipe(self.recipe)
            common = self._common("3/3 student")
            return scores(
                distill(student, self.dataset, settings, teacher=self.model, run=run, **common)
            )

        config = Distill(**job_of(self.job), **vars(settings), residual=self.space.residual)
        result, folder = stages.once("student", config, work)
        if folder is not None:
            load_weights(student, folder / "model.safetensors")
        return student.eval(), result

    def _finish(
        self,
        run: Run | None,
        student: nn.Module,
        shape: Shape,
        tested: dict[str, dict[str, Any]],
        found: dict[str, Any],
    ) -> dict[str, Any]:
        """Measure both networks, export the small one, and tell."""
        networks = {"before": self.model, "after": student}
        with tempfile.TemporaryDirectory() as scratch:
            self.progress.start("measuring", 1, 0)
            files = {} if run is None else _onnx_files(networks, self.recipe, Path(scratch))
            speed = measure_speed(
                networks, self.recipe.input_shape, device=self.fabric.device, onnx=files
            )
        sizes = {name: len(weights_as_bytes(net)) for name, net in networks.items()}
        parts = {"teacher": tested["before"], "search": found, "student": tested["after"]}
        summary = {
            **summarise(self.space, shape, self.budget, tested=tested, sizes=sizes, speed=speed),
            "derived_by": found["derived_by"],
            "given_up": found["given_up"],
            "transfer": self.distilling.transfer,
            "trained": self.trained,
            "seconds": {name: part["seconds"] for name, part in parts.items()},
            "command": self.command,
            **{name: getattr(self.job, name) for name in ("model", "data", "seed", "teacher")},
        }
        if run is not None:
            self.progress.start("exporting", 1, 0)
            summary["out"] = str(run.folder)
            place = run.folder / "export"
            summary["export"] = export(
                student, place, comparison_images(self.dataset), blueprint=self.recipe, shape=shape
            )
            card = model_card(summary, self.dataset.info, self.recipe, summary["export"])
            write_whole(place / "README.md", card)
            run.save_result(summary)
            write_report(run.folder)
        return summary

    def _common(self, title: str) -> dict[str, Any]:
        return {
            "seed": self.job.seed,
            "fabric": self.fabric,
            "checkpoint_seconds": self.job.checkpoint_seconds,
            "progress": Titled(title, self.progress),
        }


def _onnx_files(networks: dict[str, nn.Module], recipe: Blueprint, folder: Path) -> dict[str, Path]:
    """Both networks as ONNX files, if that is installed and both can be written."""
    files = {name: folder / f"{name}.onnx" for name in networks}
    try:
        for name, net in networks.items():
            onnx_file.write(net, recipe.input_shape, files[name])
    except ValueError:  # a network that ONNX has no words for is measured in PyTorch alone
        return {}
    return files
