"""What ``tas distill`` does."""

from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from ..costing.cost import macs, params
from ..data import Info
from ..networks.blueprint import Blueprint
from ..networks.build import build_for_dataset
from ..networks.load import load, network_folder
from ..runs.run_folder import Run
from ..tracing.space import Space
from ..training.checks import check_teacher
from ..training.distill import distill as distill_network
from ..training.distill import student_network
from ..training.session import Session
from ..training.train import check_steps
from .given_weights import load_trained, note_other_images, unpruned_folder
from .jobs import (
    blueprint_of,
    load_data_and_model,
    make_session,
    run_once,
    started,
)
from .options import Distill
from .outcome import Outcome
from .places import absolute_spec
from .train import kept_shape, training_result

__all__ = ["distill"]


def distill(options: Distill, command: str) -> Outcome | None:
    """Train a small network in a run folder; None in all processes but the first."""
    session = make_session(options)
    result = run_once(options, session, "distill-", partial(_distill, options, session))
    return None if result is None else Outcome.of(options, result)


def _distill(options: Distill, session: Session, folder: Path, run: Run | None) -> dict[str, Any]:
    dataset, model = load_data_and_model(options)
    shape = kept_shape(folder, options.shape)
    if shape is None:
        raise ValueError("give the shape of the small network: --shape FILE")
    space = Space.trace(
        model, dataset.info.input_shape, residual=options.residual, leaf=options.leaf
    )
    teacher = _teacher(options, model, dataset.info)
    student = student_network(
        model, space, shape, transfer=options.transfer, sort=options.sort, seed=options.seed
    )
    if teacher is not None and options.teacher is not None:
        check_teacher(teacher, dataset.info)
        note_other_images(options.teacher, dataset)
    check_steps(dataset.train, options.batch_size, session.fabric.world_size)
    files = blueprint_of(options, dataset.info).files(shape)
    with started(options, session, run, dataset, files, teacher) as session:
        trained = distill_network(student, dataset, options, session, teacher=teacher)
    cost = {"macs": macs(space, shape), "params": params(space, shape)}
    return {**training_result(options, trained, dataset.info, cost), "transfer": options.transfer}


def _teacher(options: Distill, model: nn.Module, info: Info) -> nn.Module | None:
    """The network whose outputs are learnt; for init, its weights are loaded into the model."""
    if options.transfer == "none":
        return None
    if options.teacher is None:
        raise ValueError(
            f"transfer {options.transfer} needs --teacher (a run folder, or a weights file of "
            f"{options.model}); or use --transfer none"
        )
    if "init" in options.transfer:
        load_trained(model, options, options.teacher)
        return model
    if Path(options.teacher).is_dir():
        folder = Path(options.teacher)
        if (folder / "teacher").is_dir() or not (folder / "student").is_dir():  # but of a trial
            folder = unpruned_folder(folder, options)
        named = Blueprint.read(network_folder(folder)).model == absolute_spec(options.model)
        return load(folder, trust=options.trust or named)
    teacher = build_for_dataset(options.model, info)
    load_trained(teacher, options, options.teacher)
    return teacher
