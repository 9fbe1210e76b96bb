"""Load a trained network from its run folder or from an exported folder."""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from .blueprint import Blueprint
from .build import build_network
from .weights import load_weights

__all__ = ["load", "network_folder"]


def load(folder: str | Path, model: nn.Module | None = None) -> nn.Module:
    """The trained network of a run folder or of an exported one, ready to use.

    That is the small network of a run of ``tas prune`` or ``tas distill``, and the network of a run
    of ``tas train``. If the run was made in Python from a network of your own, give that network,
    unpruned, as ``model``; it is not changed. Without it the exported program is loaded, which can
    be evaluated but not trained.
    """
    folder = network_folder(Path(folder))
    blueprint = Blueprint.read(folder)
    if model is None:
        try:
            model = _build_unpruned(blueprint)
        except ValueError as error:
            for program in (folder / "model.pt2", folder.parent / "export" / "model.pt2"):
                if program.is_file():  # this needs neither the class of the network nor its file
                    return ExportedProgram(program)
            raise ValueError(
                f"{error}; give the unpruned network: --model, or tas.load(folder, model=...)"
            ) from error
    if (folder / "shape.json").is_file():
        space = Space.trace(
            model, blueprint.input_shape, residual=blueprint.residual, leaf=blueprint.leaf
        )
        model = slim(model, space, Shape.read(folder / "shape.json"))
    else:
        model = copy.deepcopy(model)
    load_weights(model, folder / "model.safetensors")
    return model.eval()


def _build_unpruned(blueprint: Blueprint) -> nn.Module:
    if blueprint.model is None:
        raise ValueError("the network was made in Python")
    with torch.random.fork_rng(devices=[]):
        return build_network(
            blueprint.model, num_classes=blueprint.num_classes, in_channels=blueprint.input_shape[0]
        )


class ExportedProgram(nn.Module):
    """The network in a file of torch.export: it computes, but cannot be trained."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        # in a list, so that train() and eval(), which programs refuse, do not reach it
        self._program = [torch.export.load(path).module()]

    def forward(self, x: Tensor) -> Tensor:
        return self._program[0](x)  # type: ignore[no-any-return]


def network_folder(folder: Path) -> Path:
    """The folder itself or, in that of a pruning job, the one inside it with the small network."""
    job = any((folder / name).is_dir() for name in ("teacher", "student"))
    inner = folder / "student" if job else folder
    if (inner / "model.safetensors").is_file():
        return inner
    if (folder / "shape.json").is_file() and (folder / "steps.csv").is_file():
        raise ValueError(
            f"run {folder} is a search and has no trained network; train one of its shape first: "
            f"tas distill --shape {folder / 'shape.json'} (with the --model, --data and --residual "
            "of the search, and --teacher)"
        )
    if not (folder / "config.toml").is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.toml")
    raise ValueError(f"run {folder} is not finished; run its command again to go on")
