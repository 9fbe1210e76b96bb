"""How every long-running command begins, goes on and ends."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import nn

from .. import data
from ..blueprint import BLUEPRINT_FILE, Blueprint
from ..data import Dataset, Info
from ..networks.build import build_for_dataset
from ..networks.weights import load_weights
from ..runs.progress import Bar
from ..runs.run_folder import Run, default_folder
from ..tracing.space import Space
from ..training.devices import make_fabric
from ..training.interrupts import Interrupted
from ..training.train import Trained
from .arguments import Distill, Pruning, Search, Train

__all__ = [
    "anywhere",
    "chosen",
    "first_process",
    "load_trained",
    "numbers",
    "once",
    "prepare",
    "recipe_of",
    "space_of",
    "visible",
]


def first_process() -> bool:
    """With several devices, only the first process has the run folder."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def prepare(args: Train | Search | Distill | Pruning) -> tuple[Fabric, Dataset, nn.Module]:
    """Where the work is done, what it is done on, and the network with the weights of the seed."""
    fabric = make_fabric(args.device, devices=args.devices, precision=args.precision)
    dataset = data.load(
        args.data,
        args.data_dir,
        validation=args.validation,
        seed=args.seed,
        download=args.download,
        workers=args.workers,
    )
    torch.manual_seed(args.seed)
    return fabric, dataset, build_for_dataset(args.model, dataset.info)


def space_of(args: Search | Pruning, model: nn.Module, info: Info) -> Space:
    """What may change in a network, as the arguments say."""
    return Space.trace(
        model,
        info.input_shape,
        ratios=args.ratios,
        divisor=args.divisor,
        depth_step=args.depth_step,
        residual=args.residual,
        search=args.search,
    )


def chosen(presets: dict[Any, Any], args: Pruning, **own: Any) -> Any:
    """The settings of a stage: the preset's, but for what was given."""
    shared = {"batch_size": args.batch_size, "validation": args.validation}
    given = {name: value for name, value in {**shared, **own}.items() if value is not None}
    return replace(presets[args.preset](args.data), **given)


def once(
    args: Train | Distill, prefix: str, work: Callable[[Path, Run | None], dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of a run folder: what is there, or what the work gives; None in all processes but
    the first."""
    folder = Path(args.out) if args.out else default_folder(args, prefix)
    if not first_process():
        work(folder, None)
        return None
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            result = {**work(folder, run), "out": str(folder)}
            run.save_result(result)
    return {**result, "out": str(folder)}


@contextlib.contextmanager
def visible() -> Iterator[Bar]:
    """A progress bar, and a word to who interrupts it."""
    with Bar() as bar:
        try:
            yield bar
        except KeyboardInterrupt as stop:
            saved = f"{stop}; " if str(stop) else ""
            raise Interrupted(f"{saved}run the same command again to go on") from None


def numbers(
    args: Train | Distill, trained: Trained, *, macs: int | None, params: int
) -> dict[str, Any]:
    """What result.json holds of a training."""
    return {
        "accuracy": trained.accuracy,
        "top5": trained.top5,
        "n": trained.n,
        "validation_accuracy": trained.history[-1]["validation_accuracy"],
        "macs": macs,
        "params": params,
        "epochs": args.epochs,
        "seconds": sum(row["seconds"] for row in trained.history),
        "model": args.model,
        "data": args.data,
        "seed": args.seed,
    }


def recipe_of(args: Train | Distill | Pruning, dataset: Dataset) -> Blueprint:
    """How the network of a run is built again."""
    return Blueprint(
        model=anywhere(args.model),
        num_classes=dataset.info.num_classes,
        input_shape=dataset.info.input_shape,
        residual=args.residual,
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
        if theirs is None or theirs == anywhere(name):
            raise
        raise ValueError(
            f"run {given} has a {theirs}, not a {name}; use --model {theirs}"
        ) from error


def anywhere(spec: str) -> str:
    """A factory by a path that does not depend on where the command is run.

    >>> anywhere("resnet20"), anywhere("nets.py:tiny") == f"{Path('nets.py').resolve()}:tiny"
    ('resnet20', True)
    """
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else spec
