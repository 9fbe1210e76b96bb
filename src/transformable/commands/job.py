"""How every long-running command begins."""

import os
from pathlib import Path

import torch
from lightning_fabric import Fabric
from torch import nn

from .. import data
from ..arguments import Distill, Prune, Search, Train
from ..data import Dataset
from ..devices import make_fabric
from ..factory import network
from ..recipe import RECIPE, Recipe
from ..weights import load_weights

__all__ = ["first_process", "load_trained", "prepare", "recipe_of"]


def first_process() -> bool:
    """With several devices, only the first process has the run folder."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def prepare(args: Train | Search | Distill | Prune) -> tuple[Fabric, Dataset, nn.Module]:
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
    return fabric, dataset, network(args.model, dataset.info)


def recipe_of(args: Train | Distill | Prune, dataset: Dataset) -> Recipe:
    """How the network of a run is built again."""
    return Recipe(
        model=_anywhere(args.model),
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
    if (path / RECIPE).is_file():
        theirs = Recipe.read(path).model
        if theirs != _anywhere(name):
            raise ValueError(f"run {given} has a {theirs}, not a {name}; use --model {theirs}")
    if not (path / "model.safetensors").is_file():
        raise ValueError(f"run {given} has no trained network; run its command again to go on")
    load_weights(model, path / "model.safetensors")


def _anywhere(spec: str) -> str:
    """A factory by a path that does not depend on where the command is run.

    >>> _anywhere("resnet20"), _anywhere("nets.py:tiny") == f"{Path('nets.py').resolve()}:tiny"
    ('resnet20', True)
    """
    path, colon, name = spec.rpartition(":")
    return f"{Path(path).resolve()}:{name}" if colon else spec
