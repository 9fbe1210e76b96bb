"""Make what a command works with from its options: session, dataset, network, pruning job."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from .. import data
from ..comparing.trials import Trial
from ..data import Dataset, Info
from ..methods import SERVE_ALL_BUDGETS, load_method
from ..networks.blueprint import BLUEPRINT_FILE, Blueprint
from ..networks.build import build_for_dataset
from ..networks.load import load
from ..networks.packages import first_weights, is_package_spec
from ..networks.weights import load_weights
from ..pruning.job import PruningJob
from ..runs.once import once
from ..runs.run_folder import Run
from ..searching.derive import is_possible
from ..training.checks import check_outputs
from ..training.devices import make_fabric
from ..training.session import Session
from .allocator import keep_memory
from .budgets import BudgetMaker, trace_space
from .entry import is_first_process
from .options import MAY_DIFFER, Distill, RunOptions, Search, Train
from .progress_bar import progress_bar
from .pruning_options import Prune, PruningOptions, TrialOptions

__all__ = [
    "absolute_spec",
    "blueprint_of",
    "load_data_and_model",
    "load_run",
    "load_source",
    "load_trained",
    "make_job",
    "make_session",
    "run_once",
    "started",
]


def run_once(
    options: RunOptions, prefix: str, work: Callable[[Path, Run | None], dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a command, done once in its run folder; None in all processes but the first."""
    folder, first = options.folder(prefix), is_first_process()
    result = once(
        folder if first else None,
        options.settings(),
        lambda run: {**work(folder, run), "out": str(folder)},
        may_differ=MAY_DIFFER,
    )
    # the folder may have been moved since its result was written
    return {**result, "out": str(folder)} if first else None


@contextmanager
def started(
    session: Session, run: Run | None, files: Mapping[str, str] | None = None
) -> Iterator[Session]:
    """Start the run, with ``files`` in its folder, and the other processes; show a progress bar.

    Yields the session to work with. The input must have been checked before.
    """
    if run is not None:
        run.start(files)
    session.fabric.launch()
    with progress_bar() as bar:
        yield replace(session, run=run, progress=bar)


def make_session(options: RunOptions) -> Session:
    """The seed and the devices that a command works with."""
    keep_memory()
    fabric = make_fabric(options.device, devices=options.devices, precision=options.precision)
    return Session(seed=options.seed, fabric=fabric, checkpoint_seconds=options.checkpoint_seconds)


def load_data_and_model(options: RunOptions) -> tuple[Dataset, nn.Module]:
    """The dataset and the network of the options, with initial weights that the seed decides."""
    dataset = load_source(options.source(), download=options.download, workers=options.workers)
    torch.manual_seed(options.seed)
    model = build_for_dataset(options.model, dataset.info)
    if is_package_spec(options.model) and is_first_process():
        print(f"tas: {first_weights(options.model)}", file=sys.stderr)
    return dataset, model


def load_source(source: Mapping[str, Any], *, workers: int, download: bool = False) -> Dataset:
    """The dataset that ``RunOptions.source`` or the settings of a run folder describe."""
    return data.load(
        source["data"],
        source.get("data_dir"),
        validation=source.get("validation", RunOptions.validation),
        seed=source.get("seed", 0),
        mean=source.get("mean") or None,
        std=source.get("std") or None,
        download=download,
        workers=workers,
        image_size=source.get("image_size"),
    )


def make_job(
    options: Prune | TrialOptions, folder: Path, trial: Trial, command: str = ""
) -> PruningJob:
    """The job of tas prune, or of one trial; ``folder`` holds the teacher once that is trained."""
    dataset, model = load_data_and_model(options)
    # once its weights are in the run folder, the file that they came from may be gone
    if options.teacher is not None and not (folder / "teacher" / "result.json").is_file():
        load_trained(model, options.model, options.teacher, options.new_head)
    space = trace_space(options, model, dataset.info)
    budgets = BudgetMaker(options, model, space)
    source = {**options.source(), "seed": trial.seed}
    if options.teacher is not None:
        source["teacher"] = options.teacher
    return PruningJob(
        model=model,
        trained=options.given,
        dataset=dataset,
        space=space,
        budget=budgets.make(trial.budget),
        method=load_method(trial.method),
        method_name=trial.method,
        training=options.train,
        searching=options.search,
        distilling=options.student,
        blueprint=blueprint_of(options, dataset.info),
        source=source,
        command=command,
        export=options.export,
        **({} if isinstance(options, Prune) else _trial_settings(options, folder, trial, budgets)),
    )


def _trial_settings(
    options: TrialOptions, folder: Path, trial: Trial, budgets: BudgetMaker
) -> dict[str, Any]:
    """What only the jobs of a comparison have: equal terms, and one search for all budgets."""
    terms: dict[str, Any] = {"passes": options.all_passes(), "wider": options.wider()}
    space = budgets.space
    bands = {name: budgets.make(name) for name in options.all_budgets()}
    # one that needs a wider band has a search of its own
    shared = {name: band for name, band in bands.items() if is_possible(space, band)}
    if len(shared) < 2 or trial.method not in SERVE_ALL_BUDGETS:
        return terms
    return {
        **terms,
        "shared_search": folder / replace(trial, budget="_".join(shared)).name,
        "budgets": list(shared.values()),
    }


def blueprint_of(options: Train | Distill | Search | PruningOptions, info: Info) -> Blueprint:
    """The blueprint from which the network of a run can be built again."""
    return Blueprint(
        model=absolute_spec(options.model),
        num_classes=info.num_classes,
        input_shape=info.input_shape,
        residual=options.residual,
        leaf=options.leaf,
    )


def load_run(folder: Path, model: str | None, info: Info) -> nn.Module:
    """The trained network of a run; ``model`` names the unpruned one if its own file has moved."""
    network = load(folder, None if model is None else build_for_dataset(model, info))
    check_outputs(network, info)
    return network


def load_trained(model: nn.Module, name: str, given: str, new_head: bool = False) -> None:
    """Put trained weights into an unpruned network: from a file, or from the folder of a run."""
    path = Path(given)
    if not path.is_dir():
        _load(model, path, new_head)
        return
    if (path / "teacher").is_dir():
        path = path / "teacher"
    if (path / "pretrained").is_dir():  # a search that trained the network itself
        path = path / "pretrained"
    if not (path / "model.safetensors").is_file():
        raise ValueError(f"run {given} has no trained network; run its command again to go on")
    try:
        _load(model, path / "model.safetensors", new_head)
    except ValueError as error:
        theirs = Blueprint.read(path).model if (path / BLUEPRINT_FILE).is_file() else None
        if theirs is None or theirs == absolute_spec(name):
            raise
        raise ValueError(
            f"run {given} has a {theirs}, not a {name}; use --model {theirs}"
        ) from error


def _load(model: nn.Module, path: Path, new_head: bool) -> None:
    head = load_weights(model, path, new_head=new_head)
    if head is not None and is_first_process():
        words = f"the last layer ({head}) starts fresh, everything else is from {path}"
        print(f"{words}; the network is trained from there", file=sys.stderr)


def absolute_spec(spec: str) -> str:
    """A path.py:function with an absolute path, so that it is found from any working folder."""
    path, _, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if path.endswith(".py") else spec
