"""From the options of a command to the objects that do the work."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import data
from ..costing.budget import Budget
from ..data import Dataset, Info
from ..methods import load_method
from ..networks.blueprint import BLUEPRINT_FILE, Blueprint
from ..networks.build import build_for_dataset
from ..networks.weights import load_weights
from ..pruning.job import PruningJob
from ..runs.once import once
from ..runs.run_folder import Run
from ..tracing.space import Space
from ..training.devices import make_fabric
from ..training.session import Session
from .allocator import keep_memory
from .options import MAY_DIFFER, Common, Distill, Search, Train
from .options import Space as SpaceOptions
from .pruning_options import Pruning

__all__ = ["absolute_spec", "blueprint_of", "first_process", "load_data", "load_source"]
__all__ += ["load_trained", "make_job", "make_model", "make_session", "run_once", "trace_space"]


def first_process() -> bool:
    """With several devices, only the first process has the run folder."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def run_once(
    options: Common, prefix: str, work: Callable[[Path, Run | None], dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a command, done once in its run folder; None in all processes but the first."""
    folder = options.folder(prefix)
    result = once(
        folder if first_process() else None,
        options.settings(),
        lambda run: {**work(folder, run), "out": str(folder)},
        may_differ=MAY_DIFFER,
    )
    # the folder may have been moved since
    return {**result, "out": str(folder)} if first_process() else None


def make_session(options: Common, *, seed: int | None = None) -> Session:
    """The devices and the seed that a command works with."""
    keep_memory()
    fabric = make_fabric(options.device, devices=options.devices, precision=options.precision)
    seed = options.seed if seed is None else seed
    return Session(seed=seed, fabric=fabric, checkpoint_seconds=options.checkpoint_seconds)


def load_data(options: Common) -> Dataset:
    """The dataset of the options."""
    return load_source(options.source(), download=options.download, workers=options.workers)


def load_source(source: Mapping[str, Any], *, workers: int, download: bool = False) -> Dataset:
    """The dataset that ``Common.source`` or the settings of a run folder describe."""
    return data.load(
        source["data"],
        source.get("data_dir"),
        validation=source.get("validation", Common.validation),
        seed=source.get("seed", 0),
        mean=source.get("mean") or None,
        std=source.get("std") or None,
        download=download,
        workers=workers,
    )


def make_model(options: Common, info: Info) -> nn.Module:
    """The network of the options, with the initial weights that the seed decides."""
    torch.manual_seed(options.seed)
    return build_for_dataset(options.model, info)


def trace_space(options: SpaceOptions, model: nn.Module, info: Info) -> Space:
    """What may change in a network, as the options say."""
    return Space.trace(
        model,
        info.input_shape,
        ratios=options.ratios,
        divisor=options.divisor,
        depth_step=options.depth_step,
        residual=options.residual,
        search=options.sizes,
    )


def make_job(
    options: Pruning,
    folder: Path,
    *,
    method: str,
    budget: str,
    seed: int | None = None,
    command: str = "",
    export: bool = False,
) -> PruningJob:
    """The job of tas prune, or of one trial; ``folder`` holds the teacher once that is trained."""
    dataset = load_data(options)
    model = make_model(options, dataset.info)
    # once its weights are in the run folder, the file that they came from may be gone
    if options.teacher is not None and not (folder / "teacher" / "result.json").is_file():
        load_trained(model, options.model, options.teacher)
    space = trace_space(options, model, dataset.info)
    source = options.source()
    if options.teacher is not None:
        source["teacher"] = options.teacher
    if seed is not None:
        source["seed"] = seed
    return PruningJob(
        model=model,
        trained=options.teacher is not None,
        dataset=dataset,
        space=space,
        budget=Budget.of(budget, space, metric=options.metric, tolerance=options.tolerance),
        method=load_method(method),
        method_name=method,
        training=options.train,
        searching=options.search,
        distilling=options.student,
        blueprint=blueprint_of(options, dataset.info),
        source=source,
        command=command,
        export=export,
    )


def blueprint_of(options: Train | Distill | Search | Pruning, info: Info) -> Blueprint:
    """How the network of a run is built again."""
    return Blueprint(
        model=absolute_spec(options.model),
        num_classes=info.num_classes,
        input_shape=info.input_shape,
        residual=options.residual,
    )


def load_trained(model: nn.Module, name: str, given: str) -> None:
    """Put trained weights into an unpruned network: from a file, or from the folder of a run."""
    path = Path(given)
    if not path.is_dir():
        load_weights(model, path)
        return
    if (path / "teacher").is_dir():
        path = path / "teacher"
    if (path / "pretrained").is_dir():  # a search that trained the network itself
        path = path / "pretrained"
    if not (path / "model.safetensors").is_file():
        raise ValueError(f"run {given} has no trained network; run its command again to go on")
    try:
        load_weights(model, path / "model.safetensors")
    except ValueError as error:
        theirs = Blueprint.read(path).model if (path / BLUEPRINT_FILE).is_file() else None
        if theirs is None or theirs == absolute_spec(name):
            raise
        raise ValueError(
            f"run {given} has a {theirs}, not a {name}; use --model {theirs}"
        ) from error


def absolute_spec(spec: str) -> str:
    """A factory by a path that does not depend on where the command is run.

    >>> absolute_spec("resnet20")
    'resnet20'
    >>> absolute_spec("nets.py:tiny") == f"{Path('nets.py').resolve()}:tiny"
    True
    """
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else spec
