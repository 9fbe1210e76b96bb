"""What ``tas distill`` does."""

from pathlib import Path
from typing import Any

from torch import nn

from ..costing.cost import macs, params
from ..data import Dataset
from ..networks.build import build_for_dataset
from ..networks.load import load
from ..runs.run_folder import Run
from ..shape import Shape
from ..tracing.space import Space
from ..training.checks import check_teacher
from ..training.distill import distill as distill_network
from ..training.distill import small_network
from ..training.train import check_steps
from .arguments import Distill
from .job import load_trained, numbers, once, prepare, recipe_of, visible
from .outcome import Outcome

__all__ = ["distill"]


def distill(args: Distill) -> Outcome | None:
    """Train a small network in a run folder; None in all processes but the first."""
    result = once(args, "distill-", lambda folder, run: _distill(args, folder, run))
    if result is None:
        return None
    return Outcome(title=f"{args.model} on {args.data}", result=result)


def _distill(args: Distill, folder: Path, run: Run | None) -> dict[str, Any]:
    fabric, dataset, model = prepare(args)
    # the file may have changed since the run began
    kept = folder / "shape.json"
    if args.shape is None and not kept.exists():
        raise ValueError("give the shape of the small network: --shape FILE")
    shape = Shape.read(kept if kept.exists() else str(args.shape))
    space = Space.trace(model, dataset.info.input_shape, residual=args.residual)
    teacher = _teacher(args, model, dataset)
    student = small_network(
        model, space, shape, transfer=args.transfer, sort=args.sort, seed=args.seed
    )
    if teacher is not None:
        check_teacher(teacher, dataset.info)
    check_steps(dataset.train, args.batch_size, args.devices)
    if run is not None:
        run.begin()
        run.save_shape(shape)
        run.save_recipe(recipe_of(args, dataset))
    fabric.launch()
    with visible() as bar:
        trained = distill_network(
            student,
            dataset,
            args,
            teacher=teacher,
            seed=args.seed,
            run=run,
            fabric=fabric,
            checkpoint_seconds=args.checkpoint_seconds,
            progress=bar,
        )
    cost = {"macs": macs(space, shape), "params": params(space, shape)}
    return {**numbers(args, trained, **cost), "transfer": args.transfer}


def _teacher(args: Distill, model: nn.Module, dataset: Dataset) -> nn.Module | None:
    """The network that answers; for init, its weights are put into the model."""
    if args.transfer == "none":
        return None
    if args.teacher is None:
        raise ValueError(
            f"transfer {args.transfer} needs --teacher (a run folder, or a weights file of "
            f"{args.model}); or use --transfer none"
        )
    if "init" in args.transfer:
        load_trained(model, args.model, args.teacher)
        return model
    if Path(args.teacher).is_dir():
        folder = Path(args.teacher)
        return load(folder / "teacher" if (folder / "teacher").is_dir() else folder)
    teacher = build_for_dataset(args.model, dataset.info)
    load_trained(teacher, args.model, args.teacher)
    return teacher
