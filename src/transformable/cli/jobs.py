"""Make what a command works with from its options: session, dataset, network, pruning job."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from .. import data
from ..atomic_files import weights_checksum
from ..comparing.trials import Trial
from ..data import Dataset, Info
from ..launch import (
    is_first_process,
    is_under_torchrun,
    refuse_lone_tasks,
    torchrun_processes,
)
from ..methods import SERVE_ALL_BUDGETS, load_method
from ..networks.blueprint import Blueprint
from ..networks.build import build_for_dataset
from ..networks.load import load
from ..networks.packages import first_weights, is_package_spec
from ..pruning.job import PruningJob
from ..runs.once import once
from ..runs.progress_file import progress_kept
from ..runs.run_folder import Run, other_inputs
from ..searching.derive import is_possible
from ..training.checks import check_outputs, in_order_for
from ..training.devices import make_fabric
from ..training.joining import join_processes
from ..training.processes import end_with_parent, explained_loss, wait_before_killing
from ..training.session import Session
from .allocator import keep_memory
from .budgets import BudgetMaker, trace_space
from .given_weights import check_given, load_trained, note_other_images
from .options import MAY_DIFFER, Distill, RunOptions, Search, Train
from .places import absolute_spec
from .progress_bar import progress_bar
from .pruning_options import Prune, PruningOptions, TrialOptions
from .sources import refuse_other_network, sources_file, warn_of_other_sources

__all__ = [
    "blueprint_of",
    "load_data_and_model",
    "load_run",
    "load_source",
    "make_job",
    "make_session",
    "run_once",
    "started",
]


def run_once(
    options: RunOptions,
    session: Session,
    prefix: str,
    work: Callable[[Path, Run | None], dict[str, Any]],
) -> dict[str, Any] | None:
    """The result of a command, done once in its run folder; None in all processes but the first."""
    folder, first = options.folder(prefix), is_first_process()
    # processes that run already have to learn from the first whether there is work
    share = session.fabric.broadcast if is_under_torchrun() else _as_it_is
    finished = first and (folder / "result.json").is_file()

    def checked_work(run: Run | None) -> dict[str, Any]:
        if run is not None:
            refuse_other_network(folder, options)
        return {**work(folder, run), "out": str(folder)}

    with explained_loss():
        if first:
            check_given(folder, options)
        result = once(
            folder if first else None,
            options.settings(),
            checked_work,
            may_differ=MAY_DIFFER,
            share=share,
        )
    if finished:
        warn_of_other_sources(folder, options)
    # the folder may have been moved since its result was written
    return {**result, "out": str(folder)} if first else None


def _as_it_is(result: Any, _: int = 0) -> Any:
    return result


@contextmanager
def started(
    options: RunOptions,
    session: Session,
    run: Run | None,
    dataset: Dataset,
    files: Mapping[str, str] | None = None,
    teacher: nn.Module | None = None,
) -> Iterator[Session]:
    """Start the run, with ``files`` in its folder, and the other processes; show a progress bar.

    Yields the session to work with. The input must have been checked before. A run that was begun
    with other images, or with another ``teacher``, is refused.
    """
    if run is not None:
        inputs = {"images": dataset.fingerprint}
        if teacher is not None:
            inputs["weights of the teacher"] = weights_checksum(teacher.state_dict())
        run.start({**(files or {}), **sources_file(options)}, inputs=inputs)
    if not is_first_process() and not is_under_torchrun():
        end_with_parent()
    session.fabric.launch()
    wait_before_killing()
    with progress_bar() as bar, progress_kept(run, bar) as progress:
        yield replace(session, run=run, progress=progress)


def make_session(options: RunOptions) -> Session:
    """The seed and the devices that a command works with.

    Processes that torchrun has started are joined here. Others are started when there is work.
    """
    refuse_lone_tasks()
    keep_memory()
    world, nodes = torchrun_processes()
    if is_under_torchrun() and options.devices not in (None, world):
        raise ValueError(
            f"--devices {options.devices}, but torchrun has started {world}: leave out --devices"
        )
    devices = options.devices or world
    if devices > 1 and getattr(options, "dry_run", False):
        raise ValueError("a dry run tries one device: leave out --devices and torchrun")
    fabric = make_fabric(options.device, devices=devices, nodes=nodes, precision=options.precision)
    if is_under_torchrun():
        end_with_parent()
        join_processes(fabric)
    return Session(seed=options.seed, fabric=fabric, checkpoint_seconds=options.checkpoint_seconds)


def load_data_and_model(options: RunOptions) -> tuple[Dataset, nn.Module]:
    """The dataset and the network of the options, with initial weights that the seed decides."""
    # by the name that was given, which is the one to show
    source = {**options.source(), "data": options.data}
    dataset = load_source(source, download=options.download, workers=options.workers)
    torch.manual_seed(options.seed)
    model = build_for_dataset(options.model, dataset.info)
    if is_package_spec(options.model) and is_first_process():
        print(f"tas: {first_weights(options.model)}", file=sys.stderr)
    return in_order_for(dataset, model), model


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
    options: Prune | TrialOptions,
    folder: Path,
    trial: Trial,
    command: str = "",
    fabric: Fabric | None = None,
) -> PruningJob:
    """The job of tas prune, or of one trial; ``folder`` holds the teacher once that is trained.

    With several processes, the first one measures latencies for all of the ``fabric``.
    """
    dataset, model = load_data_and_model(options)
    if other_inputs(folder, {"images": dataset.fingerprint}):
        raise ValueError(
            f"the images of {options.data} differ from those that {folder} was started with; "
            "restore them, or choose another --out"
        )
    # once its weights are in the run folder, the file that they came from may be gone
    if options.teacher is not None and not (folder / "teacher" / "result.json").is_file():
        load_trained(model, options, options.teacher, options.new_head)
        note_other_images(options.teacher, dataset)
    space = trace_space(options, model, dataset.info, fabric)
    budgets = BudgetMaker(options, model, space, fabric)
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


def load_run(folder: Path, model: str | None, info: Info, trust: bool) -> nn.Module:
    """The trained network of a run; ``model`` names the unpruned one, if that is a user's own."""
    unpruned = None if model is None else build_for_dataset(model, info)
    network = load(folder, unpruned, trust=trust)
    check_outputs(network, info)
    return network
