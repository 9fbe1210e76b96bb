"""What ``tas train`` does."""

import warnings
from pathlib import Path
from typing import Any

from torch import nn

from ..costing.cost import macs
from ..data import Info
from ..runs.run_folder import Run
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.train import Trained, check_steps
from ..training.train import train as train_network
from .jobs import blueprint_of, load_data_and_model, load_trained, make_session, run_once, started
from .options import Distill, Train
from .outcome import Outcome

__all__ = ["kept_shape", "train", "training_result"]


def train(options: Train, command: str) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    result = run_once(options, "", lambda folder, run: _train(options, folder, run))
    return None if result is None else Outcome.of(options, result)


def _train(options: Train, folder: Path, run: Run | None) -> dict[str, Any]:
    session = make_session(options)
    dataset, model = load_data_and_model(options)
    shape = kept_shape(folder, options.shape)
    if options.weights is not None:
        load_trained(model, options.model, options.weights, options.new_head)
    if shape is not None:
        space = Space.trace(
            model, dataset.info.input_shape, residual=options.residual, leaf=options.leaf
        )
        model = slim(model, space, shape, weights="fresh")
    cost = {
        "macs": _macs(model, dataset.info.input_shape, options.leaf),
        "params": sum(p.numel() for p in model.parameters()),
    }
    check_steps(dataset.train, options.batch_size, options.devices)
    with started(session, run, blueprint_of(options, dataset.info).files(shape)) as session:
        trained = train_network(model, dataset, options, session)
    return training_result(options, trained, dataset.info, cost)


def kept_shape(folder: Path, path: str | None) -> Shape | None:
    """The shape that the run folder was started with, or else the one in the file ``path``."""
    kept = folder / "shape.json"
    if kept.exists():
        return Shape.read(kept)
    return None if path is None else Shape.read(path)


def training_result(
    options: Train | Distill, trained: Trained, info: Info, cost: dict[str, Any]
) -> dict[str, Any]:
    """The content of result.json after a training; ``cost`` has the MACs and parameters."""
    scores = trained.scores()
    seconds = scores.pop("seconds")
    return {
        **scores,
        "validation_accuracy": trained.history[-1]["validation_accuracy"],
        "num_classes": info.num_classes,
        **cost,
        "epochs": options.epochs,
        "seconds": seconds,
        "model": options.model,
        "data": options.data,
        "seed": options.seed,
    }


def _macs(model: nn.Module, input_shape: tuple[int, int, int], leaf: tuple[str, ...]) -> int | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # training changes no sizes
            space = Space.trace(model, input_shape, leaf=leaf)
    except ValueError:  # a network need not be traceable to be trained
        return None
    return macs(space, space.full)
