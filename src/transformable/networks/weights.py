"""Read weights files without running any code that they contain."""

import pickle
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from ..atomic_files import CHECKSUM, weights_checksum

__all__ = ["load_weights", "read_weights"]

OTHER_KINDS = {".h5", ".json", ".npy", ".npz", ".onnx", ".pb", ".pt2", ".py", ".tflite", ".toml"}
"""Endings of files that are not torch's, so that theirs is no damage."""
COUNTER = "num_batches_tracked"
PARALLEL = "module."
# from torchvision's names of a ResNet to those of tas.models; the layers are the same
TORCHVISION: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"^conv1\.": "stem.0.",
    r"^bn1\.": "stem.1.",
    r"^layer(\d)\.": lambda found: f"stages.{int(found[1]) - 1}.",
    r"\.downsample\.": ".shortcut.",
    r"^fc\.": "classifier.",
}


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """The state dict in a .safetensors file or in a torch file.

    Checksums are compared where the file has them: a .safetensors file of this package does, and so
    do all torch files except those from before torch 1.6.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"weights file {path} does not exist")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix.lower() in OTHER_KINDS:
        raise ValueError(
            f"weights file {path} is of a kind that is not taken as weights; give a .safetensors "
            "or a torch file with a state dict (.pt, .pth)"
        )
    _check_records(path)
    return _state_dict(path, _read_torch(path))


def load_weights(model: nn.Module, path: str | Path, *, new_head: bool = False) -> str | None:
    """Load the weights of a file into a network; every name and size must match.

    The ResNets for ImageNet also take torchvision's files. With ``new_head`` the last layer keeps
    the weights that it has, and its name is returned.
    """
    own = model.state_dict()
    given = _with_own_names(read_weights(path), own)
    head = _last_layer(model)
    of_head = {name for name in own if name.startswith(f"{head}.")}
    if new_head:
        given |= {name: own[name] for name in of_head}
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
                f"{', '.join(names[:3])}{rest}{_advice(names, of_head)}"
            )
    for name, tensor in given.items():
        if tensor.is_floating_point() and tensor.isnan().any():
            raise ValueError(f"weights file {path} has NaN in {name}: its training has failed")
    # files of old torch versions lack the batch counters of the norms, which nothing needs
    model.load_state_dict({**{n: t for n, t in own.items() if n.endswith(COUNTER)}, **given})
    return head if new_head else None


def _with_own_names(given: dict[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The given weights by the names of the network, if these are torchvision's for it, or those
    that nn.DataParallel and DistributedDataParallel give, which begin with "module."."""
    own_names = own.keys() & given.keys()  # a network may have a part of that name itself
    if not own_names and all(name.startswith(PARALLEL) for name in given):
        given = {name.removeprefix(PARALLEL): tensor for name, tensor in given.items()}
    renamed = {_renamed(name): tensor for name, tensor in given.items()}
    missing = {name for name in own if name not in renamed and not name.endswith(COUNTER)}
    return given if missing or not set(renamed) <= set(own) else renamed


def _renamed(name: str) -> str:
    for pattern, words in TORCHVISION.items():
        name = re.sub(pattern, words, name)
    return name


def _last_layer(model: nn.Module) -> str | None:
    """The name of the output layer: the last with weights that is not a norm."""
    layers = [name for name, m in model.named_modules() if isinstance(m, (nn.Linear, nn.Conv2d))]
    return layers[-1] if layers else None


def _advice(wrong: list[str], of_head: set[str]) -> str:
    if {entry.partition(" ")[0] for entry in wrong} <= of_head:
        return "; --new-head starts this last layer afresh"
    return ""


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            checksum = (file.metadata() or {}).get(CHECKSUM)
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError:
        what = f"weights file {path} is damaged or not safetensors"
        raise ValueError(f"{what}; {_way_on(path)}") from None
    if checksum is not None and checksum != weights_checksum(state):
        raise ValueError(f"weights file {path} is damaged: checksum mismatch; {_way_on(path)}")
    return state


def _check_records(path: Path) -> None:
    """Compare the records of a torch file with their checksums, which torch itself does not."""
    damaged = None
    try:
        if zipfile.is_zipfile(path):  # if not, it is of before torch 1.6 and has no checksums
            with zipfile.ZipFile(path) as archive:
                if any(record.CRC for record in archive.infolist()):  # torch can leave them out
                    damaged = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError):
        damaged = "its directory"
    if damaged is not None:
        raise ValueError(
            f"weights file {path} is damaged: {damaged} is not what was written; {_way_on(path)}"
        )


def _way_on(path: Path) -> str:
    """What to do about a damaged file."""
    if (path.parent / "config.toml").is_file():
        return (
            f"remove {path.parent / 'result.json'}, and that of the job around it if there is one, "
            "and run the same command again"
        )
    exported = (path.parent / "network.json").is_file()
    return "export the network again" if exported else "fetch or save it again"


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
        what = f"weights file {path} is damaged or not plain tensors"
        raise ValueError(f"{what}; {_way_on(path)}") from None
    except Exception:  # torch raises many kinds for a damaged file
        what = f"weights file {path} is damaged or not a torch file"
        raise ValueError(f"{what}; {_way_on(path)}") from None


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
    return {str(name): value for name, value in content.items()}


def _size(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "1"
