"""What ``tas train`` does."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from ..costing.cost import macs
from ..networks.blueprint import BLUEPRINT_FILE
from ..runs.run_folder import Run
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.train import Trained, check_steps
from ..training.train import train as train_network
from .jobs import blueprint_of, load_data, make_model, make_session, run_once
from .options import Distill, Train
from .outcome import Outcome
from .progress_bar import progress_bar

__all__ = ["kept_shape", "train", "training_result"]


def train(options: Train, command: str) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    result = run_once(options, "", lambda folder, run: _train(options, folder, run))
    return None if result is None else Outcome.of(options, result)


def _train(options: Train, folder: Path, run: Run | None) -> dict[str, Any]:
    session, dataset = make_session(options), load_data(options)
    model = make_model(options, dataset.info)
    shape = kept_shape(folder, options.shape)
    if shape is not None:
        space = Space.trace(model, dataset.info.input_shape, residual=options.residual)
        model = slim(model, space, shape, weights="fresh")
    cost = {
        "macs": _macs(model, dataset.info.input_shape),
        "params": sum(p.numel() for p in model.parameters()),
    }
    # all that can be wrong is found before other processes are started
    check_steps(dataset.train, options.batch_size, options.devices)
    if run is not None:
        run.start()
        run.save_text(BLUEPRINT_FILE, blueprint_of(options, dataset.info).to_json())
        if shape is not None:
            run.save_text("shape.json", shape.to_json() + "\n")
    session.fabric.launch()
    with progress_bar() as bar:
        session = replace(session, run=run, progress=bar)
        trained = train_network(model, dataset, options, session)
    return training_result(options, trained, cost)


def kept_shape(folder: Path, path: str | None) -> Shape | None:
    """The shape that a run was begun with, which the file may no longer hold; or the file's."""
    kept = folder / "shape.json"
    if kept.exists():
        return Shape.read(kept)
    return None if path is None else Shape.read(path)


def training_result(
    options: Train | Distill, trained: Trained, cost: dict[str, Any]
) -> dict[str, Any]:
    """What result.json holds of a training; ``cost`` are MACs and parameters."""
    scores = trained.scores()
    seconds = scores.pop("seconds")
    return {
        **scores,
        "validation_accuracy": trained.history[-1]["validation_accuracy"],
        **cost,
        "epochs": options.epochs,
        "seconds": seconds,
        "model": options.model,
        "data": options.data,
        "seed": options.seed,
    }


def _macs(model: nn.Module, input_shape: tuple[int, int, int]) -> int | None:
    try:
        space = Space.trace(model, input_shape)
    except ValueError:  # a network need not be traceable to be trained
        return None
    return macs(space, space.full)
