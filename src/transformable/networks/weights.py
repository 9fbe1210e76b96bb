"""Read weights files without running any code that they contain."""

import pickle
import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

__all__ = ["load_weights", "read_weights"]

COUNTER = "num_batches_tracked"


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The state dict in a .safetensors file or in a torch file."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"weights file {path} is not there")
    if path.suffix == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except SafetensorError:
            raise ValueError(f"weights file {path} is damaged or not safetensors") from None
    return _state_dict(path, _read_torch(path))


def load_weights(model: nn.Module, path: str | Path) -> None:
    """Load the weights of a file into a network; every name and size must match."""
    given = read_weights(path)
    own = model.state_dict()
    wrong = {
        "has no": [name for name in own if name not in given and not name.endswith(COUNTER)],
        "has unknown": [name for name in given if name not in own],
        "has other sizes for": [
            f"{name} ({_size(given[name])} instead of {_size(own[name])})"
            for name in own
            if name in given and given[name].shape != own[name].shape
        ],
    }
    for problem, names in wrong.items():
        if names:
            rest = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise ValueError(
                f"weights file {path} is not for this network: it {problem} "
                f"{', '.join(names[:3])}{rest}"
            )
    for name, tensor in given.items():
        if tensor.is_floating_point() and tensor.isnan().any():
            raise ValueError(f"weights file {path} has NaN in {name}: its training has failed")
    # files of old torch versions lack the batch counters of the norms, which nothing needs
    model.load_state_dict({**{n: t for n, t in own.items() if n.endswith(COUNTER)}, **given})


def _read_torch(path: Path) -> object:
    try:
        with warnings.catch_warnings(action="ignore"):  # the ValueError says it in one line
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL (\S+)", str(error))
        if found:
            raise ValueError(
                f"weights file {path} is refused: it would import {found[1]}; "
                "save the plain state dict instead"
            ) from None
        raise ValueError(f"weights file {path} is damaged or not plain tensors") from None
    except Exception:  # torch raises many kinds for a damaged file
        raise ValueError(f"weights file {path} is damaged or not a torch file") from None


def _state_dict(path: Path, content: object) -> dict[str, Tensor]:
    for key in ("state_dict", "model"):
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    if not (
        isinstance(content, Mapping)
        and content
        and all(isinstance(value, Tensor) for value in content.values())
    ):
        raise ValueError(f"weights file {path} holds no state dict")
    # nn.DataParallel and DistributedDataParallel put this in front of every name
    return {str(name).removeprefix("module."): value for name, value in content.items()}


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "1"
