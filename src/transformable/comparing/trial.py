"""One trial: a method makes a network smaller, and the small network is trained."""

import copy
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from ..atomic_files import write_whole
from ..blueprint import Blueprint
from ..cli.arguments import Distill, Search, job_of
from ..costing.budget import Budget
from ..costing.cost import macs, params
from ..data import Dataset
from ..layers import initialise
from ..methods import Context, Found, method
from ..networks.speed import time_networks
from ..networks.weights import load_weights
from ..runs.progress import Progress, Titled
from ..runs.run_folder import Run
from ..settings import Distilling, Searching, Transfer
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.distill import distill, small_network
from ..training.evaluate import evaluate
from .grid import Grid, Trial

__all__ = ["Bench"]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What all trials of a comparison have in common."""

    args: Grid
    teacher: nn.Module
    """The unpruned network, trained."""
    dataset: Dataset
    space: Space
    searching: Searching
    distilling: Callable[[Transfer], Distilling]
    recipe: Blueprint
    fabric: Fabric
    progress: Progress

    def __call__(self, trial: Trial, folder: Path) -> None:
        """Do what is not done yet of a trial; results are kept in its folder."""
        found = self._find(trial, folder / "search")
        for transfer in self.args.transfers():
            self._learn(trial, folder / transfer, found, transfer)

    def budget(self, trial: Trial) -> Budget:
        """Of this trial."""
        args = self.args
        return Budget.of(trial.budget, self.space, metric=args.metric, tolerance=args.tolerance)

    def _find(self, trial: Trial, folder: Path) -> Found:
        shared = ("metric", "residual", "search", "ratios", "divisor", "depth_step")
        config = Search(
            **{**job_of(self.args), "seed": trial.seed},
            **vars(self.searching),
            **{name: getattr(self.args, name) for name in shared},
            budget=trial.budget,
        )
        with Run.open(folder, config) as run:
            run.begin()
            result = run.result()
            if result is not None and not result["measured"]:
                return self._found_before(folder, result)
            found, seconds = self._timed(trial, run)
            if result is None:
                run.save_shape(found.shape)
                run.save_weights(found.model)
                run.save_result(
                    {
                        "cost": found.cost,
                        "measured": found.settle is not None,
                        "notes": found.notes,
                        "seconds": seconds,
                    }
                )
        return found

    def _timed(self, trial: Trial, run: Run) -> tuple[Found, float]:
        """What the method finds, and how long it looked, with what came before an interruption."""
        context = Context(
            dataset=self.dataset,
            searching=self.searching,
            seed=trial.seed,
            run=run,
            fabric=self.fabric,
            checkpoint_seconds=self.args.checkpoint_seconds,
            progress=Titled("search", self.progress),
        )
        clock, start = run.folder / "seconds.json", time.perf_counter()
        before = json.loads(clock.read_text(encoding="utf-8")) if clock.exists() else 0.0
        try:
            budget = self.budget(trial)
            found = method(trial.method)(self.teacher, self.space, budget, context)
        finally:
            seconds = before + time.perf_counter() - start
            write_whole(clock, json.dumps(seconds))
        if not budget.holds(found.cost):
            raise ValueError(
                f"{trial.method} found a network with {found.cost:,} {budget.metric}, outside of "
                f"{budget.low:,} to {budget.high:,}"
            )
        return found, seconds

    def _found_before(self, folder: Path, result: dict[str, Any]) -> Found:
        shape = Shape.read(folder / "shape.json")
        model = slim(self.teacher, self.space, shape)
        load_weights(model, folder / "model.safetensors")
        return Found(shape=shape, model=model, cost=result["cost"], notes=result["notes"])

    def _learn(self, trial: Trial, folder: Path, found: Found, transfer: Transfer) -> None:
        settings = self.distilling(transfer)
        config = Distill(
            **{**job_of(self.args), "seed": trial.seed},
            **vars(settings),
            residual=self.space.residual,
        )
        with Run.open(folder, config) as run:
            if run.result() is not None:
                return
            run.begin()
            run.save_shape(found.shape)
            student = self._student(found, transfer, trial.seed)
            trained = distill(
                student,
                self.dataset,
                settings,
                teacher=self.teacher,
                seed=trial.seed,
                each_epoch=found.each_epoch,
                run=run,
                fabric=self.fabric,
                checkpoint_seconds=self.args.checkpoint_seconds,
                progress=Titled(transfer, self.progress),
            )
            scores = {"accuracy": trained.accuracy, "top5": trained.top5, "n": trained.n}
            cost = found.cost
            if found.settle is None:
                run.save_recipe(self.recipe)
            else:
                cost = found.settle(student)
                scores = evaluate(student, self.dataset.test, fabric=self.fabric)
                run.save_weights(student)
            run.save_result(
                {
                    **scores,
                    **self._sizes(found, student, cost),
                    **self._speed(student),
                    "seconds": sum(row["seconds"] for row in trained.history),
                }
            )

    def _student(self, found: Found, transfer: Transfer, seed: int) -> nn.Module:
        """The small network as its training begins: as the method left it, or fresh."""
        student = copy.deepcopy(found.model).cpu()
        if "init" in transfer:
            return student
        if found.settle is None:
            return small_network(
                self.teacher, self.space, found.shape, transfer=transfer, sort=False, seed=seed
            )
        # what is drawn for a weight depends on how it lies in memory
        student.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            initialise(student)
        return student

    def _speed(self, student: nn.Module) -> dict[str, float]:
        """Milliseconds for one image, and those of the teacher, timed in turn with it."""
        networks = {"student": student, "teacher": self.teacher}
        times = time_networks(networks, self.space.input_shape, device=self.fabric.device)
        return {
            "latency_ms": times["student"].median_ms,
            "teacher_latency_ms": times["teacher"].median_ms,
        }

    def _sizes(self, found: Found, student: nn.Module, cost: int) -> dict[str, Any]:
        """MACs and parameters, counted by the shape or, where that is too little, measured."""
        measured = found.settle is not None
        sizes = {"macs": macs(self.space, found.shape), "params": params(self.space, found.shape)}
        if measured:
            sizes = {"macs": cost, "params": sum(p.numel() for p in student.parameters())}
        return {**sizes, "cost": cost, "measured": measured}
