"""What ``tas train`` does."""

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..costing.cost import macs
from ..costing.published import Published, find
from ..data import Info
from ..runs.run_folder import Run
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.session import Session
from ..training.train import Trained, check_steps
from ..training.train import train as train_network
from .given_weights import load_trained
from .jobs import blueprint_of, load_data_and_model, make_session, run_once, started
from .options import Distill, Train
from .outcome import Outcome

__all__ = ["kept_shape", "train", "training_result"]


def train(options: Train, command: str) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    session, prefix = make_session(options), ""
    if options.published is not None:
        options, prefix = _as_published(options, find(options.published)), f"{options.published}-"
    result = run_once(options, session, prefix, partial(_train, options, session))
    return None if result is None else Outcome.of(options, result)


def _as_published(options: Train, network: Published) -> Train:
    """The options of a network that the paper's authors published."""
    if options.model not in (Train.model, network.network):
        raise ValueError(
            f"the published {options.published} is a {network.network}, not a {options.model}: "
            "leave out --model"
        )
    return replace(options, model=network.network, residual="project")


def _train(options: Train, session: Session, folder: Path, run: Run | None) -> dict[str, Any]:
    dataset, model = load_data_and_model(options)
    shape = kept_shape(folder, options.shape)
    if options.weights is not None:
        load_trained(model, options, options.weights, options.new_head)
    if shape is not None or options.published is not None:
        space = Space.trace(
            model, dataset.info.input_shape, residual=options.residual, leaf=options.leaf
        )
        shape = shape or find(options.published or "").shape(space)
        model = slim(model, space, shape, weights="fresh")
    cost = {
        "macs": _macs(model, dataset.info.input_shape, options.leaf),
        "params": sum(p.numel() for p in model.parameters()),
    }
    check_steps(dataset.train, options.batch_size, session.fabric.world_size)
    files = blueprint_of(options, dataset.info).files(shape)
    with started(options, session, run, dataset, files) as session:
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
