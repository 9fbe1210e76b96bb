"""Networks of timm and torchvision, named on the command line as ``timm:NAME``.

They start from their pretrained weights if those are in the cache; nothing is downloaded.
"""

import importlib
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch
from torch import nn

from ..spelling import nearest
from ..user_code import first_line
from .weights import read_weights

__all__ = ["build_from_package", "first_weights", "is_package_spec"]

# as the hub of Hugging Face calls them
HUB_FILES = ("model.safetensors", "pytorch_model.bin")


def is_package_spec(spec: str) -> bool:
    """Whether ``spec`` names a network of a package.

    >>> is_package_spec("timm:resnet18"), is_package_spec("nets/timm.py:resnet18")
    (True, False)
    """
    return spec.startswith(("timm:", "torchvision:"))


def build_from_package(spec: str, *, num_classes: int, in_channels: int) -> nn.Module:
    """The network of ``timm:NAME`` or ``torchvision:NAME``, with a head for ``num_classes``."""
    package, name = _find(spec)
    file = _cached_weights(package, name)
    try:
        if package.__name__ == "timm":
            given: dict[str, Any] = {"num_classes": num_classes, "in_chans": in_channels}
            if file is not None:
                given |= {"pretrained": True, "pretrained_cfg_overlay": {"file": str(file)}}
            return package.create_model(name, **given)  # type: ignore[no-any-return]
        return _build_torchvision(package, name, num_classes, in_channels, file)
    except Exception as error:
        raise ValueError(f"model {spec!r} failed: {first_line(error)}") from error


def first_weights(spec: str) -> str:
    """A sentence that says which weights a network of a package starts from."""
    package, name = _find(spec)
    if file := _cached_weights(package, name):
        return f"{spec} starts from {file}"
    timm = f"timm.create_model({name!r}, pretrained=True)"
    torchvision = f"torchvision.models.get_model({name!r}, weights='DEFAULT')"
    return (
        f"{spec} starts from new weights: its pretrained ones are not in the cache; "
        f"{timm if package.__name__ == 'timm' else torchvision} would download them"
    )


def _find(spec: str) -> tuple[Any, str]:
    """The package and the name of the network in it, which is there."""
    package_name, _, name = spec.partition(":")
    try:
        package = importlib.import_module(package_name)
    except ImportError as error:
        if getattr(error, "name", None) != package_name:
            raise ValueError(
                f"model {spec!r}: {package_name} cannot be imported: {first_line(error)}"
            ) from error
        raise ValueError(
            f"model {spec!r} needs the package {package_name}, which is not installed: "
            f"pip install {package_name}"
        ) from None
    if package_name == "timm":
        known, architecture = package.list_models(), name.partition(".")[0]
    else:
        known, architecture = package.models.list_models(module=package.models), name
    if architecture not in known:
        raise ValueError(f"{package_name} has no model {name!r}; {nearest(architecture, known)}")
    return package, name


def _cached_weights(package: Any, name: str) -> Path | None:
    """The file of the pretrained weights, if it has been downloaded before."""
    if package.__name__ == "timm":
        config = package.get_pretrained_cfg(name)
        url, hub = getattr(config, "url", None), getattr(config, "hf_hub_id", None)
    else:
        best = getattr(package.models.get_model_weights(name), "DEFAULT", None)
        url, hub = getattr(best, "url", None), None
    files = [Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(url or "").path).name]
    if hub:
        constants = importlib.import_module("huggingface_hub.constants")
        folder = Path(constants.HF_HUB_CACHE) / f"models--{hub.replace('/', '--')}"
        newest = folder / "refs" / "main"
        if newest.is_file():
            snapshot = folder / "snapshots" / newest.read_text().strip()
            files = [*(snapshot / file for file in HUB_FILES), *files]
    return next((file for file in files if file.is_file()), None)


def _build_torchvision(
    package: Any, name: str, num_classes: int, in_channels: int, file: Path | None
) -> nn.Module:
    given: dict[str, Any] = {"weights": None, "num_classes": num_classes}
    model: nn.Module = package.models.get_model(name, **given)
    if getattr(model, "aux_logits", False):
        # an auxiliary head, whose outputs exist in training mode only
        model = package.models.get_model(name, **given, aux_logits=False)
    if in_channels != 3:
        _set_input_channels(model, in_channels)
    if file is not None:
        own = model.state_dict()
        trained = read_weights(file)
        fitting = {n: t for n, t in trained.items() if n in own and own[n].shape == t.shape}
        model.load_state_dict(fitting, strict=False)
    return model


def _set_input_channels(model: nn.Module, in_channels: int) -> None:
    """Replace the first convolution by one that reads so many channels."""
    name, conv = next((n, m) for n, m in model.named_modules() if isinstance(m, nn.Conv2d))
    options = ("kernel_size", "stride", "padding", "dilation", "padding_mode")
    same: dict[str, Any] = {option: getattr(conv, option) for option in options}
    first = nn.Conv2d(in_channels, conv.out_channels, bias=conv.bias is not None, **same)
    model.set_submodule(name, first)
