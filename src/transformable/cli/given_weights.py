"""Trained weights for a command: a file, or the folder of a run."""

import sys
from pathlib import Path

from torch import nn

from ..data import Dataset
from ..launch import is_first_process
from ..networks.blueprint import BLUEPRINT_FILE, Blueprint
from ..networks.weights import load_weights
from ..runs.run_folder import SETTINGS, check_version, other_inputs, read_settings
from .options import RunOptions
from .places import absolute_spec, names_a_dataset

__all__ = ["check_given", "load_trained", "note_other_images", "unpruned_folder"]


def check_given(folder: Path, options: RunOptions) -> None:
    """Refuse missing weights before the run folder is opened. Once a run was started with them,
    they may be gone."""
    for option in ("weights", "teacher"):
        given: str | None = getattr(options, option, None)
        if given is None or Path(given).exists():
            continue
        if (folder / SETTINGS).is_file() and read_settings(folder).get(option) == given:
            continue
        raise ValueError(f"weights file {given} does not exist")


def load_trained(model: nn.Module, options: RunOptions, given: str, new_head: bool = False) -> None:
    """Put trained weights into the unpruned network of the options."""
    path = Path(given)
    if not path.is_dir():
        _load(model, path, new_head)
        return
    path = unpruned_folder(path, options)
    check_version(path)
    try:
        _load(model, path / "model.safetensors", new_head)
    except ValueError as error:
        why = _made_otherwise(path, options)
        if not why or "is not for this network" not in str(error):  # but damaged
            raise
        if "--new-head" in str(error):  # only the last layer does not fit
            why += ", or --new-head to start the last layer afresh"
        raise ValueError(f"run {given} {why}") from error


def unpruned_folder(given: Path, options: RunOptions) -> Path:
    """The folder with the trained, unpruned network of a run: its own, or one inside it."""
    folder = given
    for inner in ("teacher", "pretrained"):  # of a job; of a search that trained the network itself
        folder = folder / inner if (folder / inner).is_dir() else folder
    if (folder / "model.safetensors").is_file():
        return folder
    if not (folder / SETTINGS).is_file():
        raise ValueError(
            f"folder {given} is not a run folder: it has no {SETTINGS}; give the folder of a run, "
            "or a weights file"
        )
    settings = read_settings(folder)
    weights = settings.get("weights")
    if settings.get("command") == "search" and weights and not settings.get("new_head"):
        option = "--teacher" if hasattr(options, "teacher") else "--weights"
        raise ValueError(
            f"run {given} is a search that took its weights from {weights} and keeps no trained "
            f"network itself; use {option} {weights}"
        )
    if (folder / "result.json").is_file():
        raise ValueError(
            f"run {given} is finished and has no trained, unpruned network; give the run or the "
            "weights file that it was made from"
        )
    raise ValueError(f"run {given} has no trained network; run its command again to continue")


def _made_otherwise(folder: Path, options: RunOptions) -> str:
    """Why the weights of a run do not fit, if it has another network or other classes."""
    theirs = Blueprint.read(folder).model if (folder / BLUEPRINT_FILE).is_file() else None
    if theirs not in (None, absolute_spec(options.model)):
        return f"has a {theirs}, not a {options.model}; use --model {theirs}"
    data = str(read_settings(folder).get("data")) if (folder / SETTINGS).is_file() else ""
    if names_a_dataset(data) and data != absolute_spec(options.data):
        return f"was trained on {data}, not on {options.data}; use --data {data}"
    return ""


def note_other_images(teacher: str, dataset: Dataset) -> None:
    """Print a note if a network was trained on other images than those of the dataset."""
    folders = (Path(teacher), Path(teacher) / "teacher", Path(teacher) / "pretrained")
    inputs = {"images": dataset.fingerprint}
    if is_first_process() and any(other_inputs(folder, inputs) for folder in folders):
        print(f"{teacher} was trained on other images than the present ones", file=sys.stderr)


def _load(model: nn.Module, path: Path, new_head: bool) -> None:
    head = load_weights(model, path, new_head=new_head)
    if head is not None and is_first_process():
        words = f"the last layer ({head}) starts fresh, everything else is from {path}"
        print(f"{words}; the network is trained from there", file=sys.stderr)
