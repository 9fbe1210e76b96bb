"""What ``tas train`` does."""

from pathlib import Path
from typing import Any

import torch

from ..costing.cost import macs as count_macs
from ..runs.run_folder import Run
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.train import check_steps
from ..training.train import train as train_model
from .arguments import Train
from .job import numbers, once, prepare, recipe_of, visible
from .outcome import Outcome

__all__ = ["train"]


def train(args: Train) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    result = once(args, "", lambda folder, run: _train(args, folder, run))
    if result is None:
        return None
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
    with visible() as bar:
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
    return numbers(args, trained, macs=macs, params=sum(p.numel() for p in model.parameters()))


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
