"""Load a trained network from its run folder or from an exported folder."""

import copy
from pathlib import Path

import torch
from torch import Tensor, nn

from ..runs.run_folder import check_version
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.space import Space
from ..training.checks import check_model
from .blueprint import Blueprint
from .build import build_network
from .weights import load_weights

__all__ = ["load", "network_folder"]


def load(folder: str | Path, model: nn.Module | None = None, *, trust: bool = False) -> nn.Module:
    """The trained network of a run folder or of an exported one, ready to use.

    That is the small network of a run of ``tas prune`` or ``tas distill``, and the network of a run
    of ``tas train``. Nothing in the folder is run as code. If the run was made from a network of
    your own, give that network, unpruned, as ``model``; it is not changed. Or use ``trust=True``
    for a folder whose author you trust: the Python file that it names is run or, if there is none,
    the exported program is loaded, which can be evaluated but not trained.
    """
    folder = network_folder(Path(folder))
    blueprint = Blueprint.read(folder)
    if model is not None:
        check_model(model)
    else:
        _check_trust(folder, blueprint, trust)
        try:
            model = _build_unpruned(blueprint)
        except ValueError as error:
            places = (folder / "model.pt2", folder.parent / "export" / "model.pt2")
            program = next((path for path in places if path.is_file()), None)
            if program and trust:  # it needs neither the class of the network nor its file
                return ExportedProgram(program)
            also = f"; --trust, or trust=True, loads {program}" if program else ""
            raise ValueError(
                f"{error}; give the unpruned network: --model, or tas.load(folder, model=...){also}"
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


def _check_trust(folder: Path, blueprint: Blueprint, trust: bool) -> None:
    """Refuse to run the code that a folder names, unless it is trusted."""
    if blueprint.runs_a_file and not trust:
        raise ValueError(
            f"{folder} was made with {blueprint.model}, and a file is run only if you name it: "
            f"give --model {blueprint.model}, or tas.load(folder, model=...); --trust, or "
            "trust=True, runs what a folder names"
        )


def _build_unpruned(blueprint: Blueprint) -> nn.Module:
    if blueprint.model is None:
        raise ValueError("the network was made in Python")
    with torch.random.fork_rng(devices=[]):
        return build_network(
            blueprint.model, num_classes=blueprint.num_classes, in_channels=blueprint.input_shape[0]
        )


class ExportedProgram(nn.Module):
    """The network in a file of torch.export: it computes, but cannot be trained.

    Such a file can run code when it is loaded.
    """

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
        check_version(inner)
        return inner
    if (folder / "shape.json").is_file() and (folder / "steps.csv").is_file():
        raise ValueError(
            f"run {folder} is a search and has no trained network; train one of its shape first: "
            f"tas distill --shape {folder / 'shape.json'} (with the --model, --data and --residual "
            "of the search, and --teacher)"
        )
    if not (folder / "config.toml").is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.toml")
    weights = "student/model.safetensors"
    trials = [*folder.glob(f"*/*/{weights}"), *folder.glob(f"*/{weights}")]
    if trials:
        names = ", ".join(str(path.parents[1]) for path in sorted(trials))
        raise ValueError(f"{folder} holds several networks; choose one of them: {names}")
    raise ValueError(f"run {folder} is not finished; run its command again to continue")
