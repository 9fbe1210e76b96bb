"""What ``tas train`` does."""

from pathlib import Path
from typing import Any

import torch

from ..arguments import Train
from ..cost import macs as count_macs
from ..interrupt import Interrupted
from ..progress import Bar
from ..runs import Run, default_folder
from ..shape import Shape
from ..slimming import slim
from ..space import Space
from ..training import check_steps
from ..training import train as train_model
from . import Outcome
from .job import first_process, prepare, recipe_of

__all__ = ["train"]


def train(args: Train) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    folder = Path(args.out) if args.out else default_folder(args)
    if not first_process():
        _train(args, folder, None)
        return None
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            result = _train(args, folder, run)
            run.save_result(result)
    return Outcome(title=f"{args.model} on {args.data}", result=result)


def _train(args: Train, folder: Path, run: Run | None) -> dict[str, Any]:
    fabric, dataset, model = prepare(args)
    shape = None if args.shape is None else Shape.read(_kept(folder) or args.shape)
    if shape is not None:
        space = Space.trace(model, dataset.info.input_shape, residual=args.residual)
        model = slim(model, space, shape, weights="fresh")
    macs = _macs(model, dataset.info.input_shape)
    # all that can be wrong is found before other processes are started
    check_steps(dataset.train, args.batch_size, args.devices)
    if run is not None:
        run.begin()
        run.save_recipe(recipe_of(args, dataset))
        if shape is not None:
            run.save_shape(shape)
    fabric.launch()
    with Bar() as bar:
        try:
            trained = train_model(
                model,
                dataset,
                args,
                seed=args.seed,
                run=run,
                fabric=fabric,
                checkpoint_seconds=args.checkpoint_seconds,
                progress=bar,
            )
        except Interrupted as stop:
            raise Interrupted(f"{stop}; run the same command again to go on") from None
    return {
        "accuracy": trained.accuracy,
        "top5": trained.top5,
        "n": trained.n,
        "validation_accuracy": trained.history[-1]["validation_accuracy"],
        "macs": macs,
        "params": sum(p.numel() for p in model.parameters()),
        "epochs": args.epochs,
        "seconds": sum(row["seconds"] for row in trained.history),
        "model": args.model,
        "data": args.data,
        "seed": args.seed,
        "out": str(folder),
    }


def _kept(folder: Path) -> Path | None:
    """The shape that a run was begun with, which the file may no longer hold."""
    path = folder / "shape.json"
    return path if path.exists() else None


def _macs(model: torch.nn.Module, input_shape: tuple[int, int, int]) -> int | None:
    try:
        space = Space.trace(model, input_shape)
    except ValueError:  # a network need not be traceable to be trained
        return None
    return count_macs(space, space.full)
