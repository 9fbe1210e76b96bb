"""A trained network back from its folder: a run, or what was exported."""

import copy
from pathlib import Path

import torch
from torch import nn

from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from .build import build
from .recipe import Recipe
from .weights import load_weights

__all__ = ["load", "network_folder"]


def load(folder: str | Path, model: nn.Module | None = None) -> nn.Module:
    """The trained network of a run folder or of an exported one, ready to use.

    The small network of a run of ``tas prune`` or ``tas distill``, the network itself of
    ``tas train``. What was made in Python from a network of your own needs that network, unpruned,
    as ``model``, which stays as it is; without it, what was exported is loaded, which can compute
    but not be trained.
    """
    folder = network_folder(Path(folder))
    recipe = Recipe.read(folder)
    if model is None:
        try:
            model = _unpruned(recipe)
        except ValueError as error:
            for program in (folder / "model.pt2", folder.parent / "export" / "model.pt2"):
                if program.is_file():  # this needs neither the class of the network nor its file
                    return torch.export.load(program).module()
            raise ValueError(
                f"{error}; give the unpruned network: --model, or tas.load(folder, model=...)"
            ) from error
    if (folder / "shape.json").is_file():
        space = Space.trace(model, recipe.input_shape, residual=recipe.residual)
        model = slim(model, space, Shape.read(folder / "shape.json"))
    else:
        model = copy.deepcopy(model)
    load_weights(model, folder / "model.safetensors")
    return model.eval()


def _unpruned(recipe: Recipe) -> nn.Module:
    """The network before it was made smaller; its weights are of no account."""
    if recipe.model is None:
        raise ValueError("the network was made in Python")
    channels = recipe.input_shape[0]
    with torch.random.fork_rng(devices=[]):
        return build(recipe.model, num_classes=recipe.num_classes, in_channels=channels)


def network_folder(folder: Path) -> Path:
    """Where in a folder the trained network is."""
    whole = (folder / "teacher").is_dir()  # a run of tas prune
    place = folder / "student" if whole else folder
    if (place / "model.safetensors").is_file():
        return place
    if (folder / "shape.json").is_file() and (folder / "steps.csv").is_file():
        raise ValueError(
            f"run {folder} is a search and has no trained network; train one of its shape first: "
            f"tas distill --shape {folder / 'shape.json'} (with the --model, --data and --residual "
            "of the search, and --teacher)"
        )
    if not (folder / "config.toml").is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.toml")
    raise ValueError(f"run {folder} is not finished; run its command again to go on")
