"""A trained network as files for use elsewhere, each read back and compared before it counts."""

import contextlib
import copy
import io
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..atomic_files import weights_as_bytes, write_whole
from ..data import Dataset
from ..shape import Shape
from . import onnx_file
from .load import load
from .recipe import RECIPE, Recipe
from .weights import load_weights

__all__ = ["check_agreement", "export", "first_images", "refusal"]

CHECKED = 1000
"""How many test images the files are compared on, at most."""
PART = 100
FILES = ("model.safetensors", "model.pt2", "model.onnx")


def export(
    model: nn.Module, folder: Path, images: Tensor, *, recipe: Recipe, shape: Shape | None = None
) -> dict[str, Any]:
    """Write ``model`` into a folder: safetensors with its shape, torch.export and ONNX.

    Each file is read back and has to give the logits of the network on ``images``. The last two run
    without this package; if the network cannot be written in one of them, the result says why.
    """
    images = images[:CHECKED].cpu()
    model = copy.deepcopy(model).cpu().eval()
    logits = _in_parts(model, images)
    left_out = {}
    try:
        _clear(folder)
        write_whole(folder / RECIPE, recipe.to_json())
        if shape is not None:
            write_whole(folder / "shape.json", shape.to_json() + "\n")
        _write_weights(model, folder, recipe, images, logits)
        for name, write in (("model.pt2", _write_program), ("model.onnx", _write_onnx)):
            try:
                write(model, folder / name, recipe, images, logits)
            except ValueError as error:
                left_out[name] = str(error)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from error
    sizes = {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}
    return {"out": str(folder), "files": sizes, "left_out": left_out, "checked": len(images)}


def _clear(folder: Path) -> None:
    """Make the folder; an earlier export in it goes, anything else is not ours."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECIPE).is_file():
        raise ValueError(f"folder {folder} holds other files; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*FILES, "shape.json", RECIPE):
        (folder / name).unlink(missing_ok=True)


def first_images(dataset: Dataset) -> Tensor:
    """Those of the test set that files are compared on."""
    x, _ = next(iter(dataset.test.ordered(min(CHECKED, len(dataset.test)))))
    return x


def _write_weights(
    model: nn.Module, folder: Path, recipe: Recipe, images: Tensor, logits: Tensor
) -> None:
    path = folder / "model.safetensors"
    content = weights_as_bytes(model)
    write_whole(path, lambda file: file.write(content))
    # what was made in Python can only be built again by its maker
    net = _emptied(model) if recipe.model is None else load(folder)
    load_weights(net, path)
    check_agreement(path, lambda x: net(x), images, logits)


def _emptied(model: nn.Module) -> nn.Module:
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in twin.state_dict().values():
            tensor.zero_()
    return twin


def _write_program(
    model: nn.Module, path: Path, recipe: Recipe, images: Tensor, logits: Tensor
) -> None:
    batch = torch.export.Dim("batch", min=1)
    content = io.BytesIO()
    with refusal("torch.export"), warnings.catch_warnings(action="ignore"):
        example = (torch.zeros(2, *recipe.input_shape),)
        program = torch.export.export(model, example, dynamic_shapes=({0: batch},), strict=False)
        torch.export.save(program, content)
    write_whole(path, lambda file: file.write(content.getbuffer()))
    with warnings.catch_warnings(action="ignore"):
        net = torch.export.load(path).module()
    check_agreement(path, lambda x: net(x), images, logits)


def _write_onnx(
    model: nn.Module, path: Path, recipe: Recipe, images: Tensor, logits: Tensor
) -> None:
    if not onnx_file.available():
        raise ValueError("not installed; pip install 'transformable[export]'")
    with refusal("ONNX"):
        onnx_file.write(model, recipe.input_shape, path)
    run = onnx_file.session(path)
    check_agreement(path, lambda x: torch.from_numpy(run(x.numpy())), images, logits)


@contextlib.contextmanager
def refusal(what: str) -> Iterator[None]:
    """Turns what an exporter raises, and what else it says, into one line."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # exporters raise many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = re.sub(r"\x1b\[[0-9;]*m", "", lines[0])  # colours
        raise ValueError(f"the network cannot be written by {what}: {reason}") from error
    finally:
        logging.disable(logging.NOTSET)


def check_agreement(
    path: Path, network: Callable[[Tensor], Tensor], images: Tensor, logits: Tensor
) -> None:
    """Refuse, and remove, a file that does not give these logits; also for one image alone.

    Rounding is a part of the largest logit; top-1 has to be the same but where two are that near.
    """
    rounding = 1e-5 * max(1.0, float(logits.abs().max()))
    for found, wanted in (
        (_in_parts(network, images), logits),
        (_in_parts(network, images[:1]), logits[:1]),
    ):
        two = wanted.topk(min(2, wanted.shape[1])).values
        clear = two[:, 0] - two[:, -1] > 2 * rounding
        same = torch.allclose(found, wanted, rtol=1e-3, atol=rounding)
        if not same or not torch.equal(found.argmax(1)[clear], wanted.argmax(1)[clear]):
            path.unlink()
            worst = float((found - wanted).abs().max())
            raise ValueError(
                f"{path} does not compute what the network does (logits differ by {worst:.2g}) "
                "and was removed"
            )


def _in_parts(network: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Of many photos at once, one layer can fill the memory."""
    with torch.inference_mode():
        return torch.cat([network(part) for part in torch.split(images, PART)])
