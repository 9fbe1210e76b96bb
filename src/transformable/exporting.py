"""A trained network as files for use elsewhere, each read back and compared before it counts."""

import contextlib
import copy
import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import onnxfile
from .data import Dataset
from .loading import load
from .recipe import RECIPE, Recipe
from .runs import weights_as_bytes, write_whole
from .shape import Shape
from .weights import load_weights

__all__ = ["check_agreement", "export", "first_images"]

CHECKED = 1000
"""How many test images the files are compared on, at most."""


def export(
    model: nn.Module,
    folder: Path,
    images: Tensor,
    *,
    recipe: Recipe,
    shape: Shape | None = None,
    card: str = "",
) -> dict[str, Any]:
    """Write ``model`` into a folder: safetensors with its shape, torch.export, ONNX, a model card.

    Each file is read back and has to give the logits of the network on ``images``. The last two run
    without this package. The result names the files with their sizes.
    """
    images = images[:CHECKED].cpu()
    model = copy.deepcopy(model).cpu().eval()
    with torch.inference_mode():
        logits = model(images)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / RECIPE, recipe.to_json())
        if shape is not None:
            write_whole(folder / "shape.json", shape.to_json() + "\n")
        if card:
            write_whole(folder / "README.md", card)
        _write_weights(model, folder, recipe, images, logits)
        _write_program(model, folder, recipe, images, logits)
        if onnxfile.available():
            _write_onnx(model, folder, recipe, images, logits)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from error
    names = ("model.safetensors", "model.pt2", "model.onnx")
    sizes = {n: (folder / n).stat().st_size for n in names if (folder / n).is_file()}
    result: dict[str, Any] = {"out": str(folder), "files": sizes, "checked": len(images)}
    if "model.onnx" not in sizes:
        result["left_out"] = "model.onnx: pip install 'transformable[export]'"
    return result


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
    model: nn.Module, folder: Path, recipe: Recipe, images: Tensor, logits: Tensor
) -> None:
    path = folder / "model.pt2"
    batch = torch.export.Dim("batch", min=1)
    content = io.BytesIO()
    with _refusal("torch.export"), warnings.catch_warnings(action="ignore"):
        example = (torch.zeros(2, *recipe.input_shape),)
        program = torch.export.export(model, example, dynamic_shapes=({0: batch},), strict=False)
        torch.export.save(program, content)
    write_whole(path, lambda file: file.write(content.getbuffer()))
    with warnings.catch_warnings(action="ignore"):
        net = torch.export.load(path).module()
    check_agreement(path, lambda x: net(x), images, logits)


def _write_onnx(
    model: nn.Module, folder: Path, recipe: Recipe, images: Tensor, logits: Tensor
) -> None:
    path = folder / "model.onnx"
    with _refusal("ONNX"):
        onnxfile.write(model, recipe.input_shape, path)
    run = onnxfile.session(path)
    check_agreement(path, lambda x: torch.from_numpy(run(x.numpy())), images, logits)


@contextlib.contextmanager
def _refusal(what: str) -> Iterator[None]:
    """Turns what an exporter raises into one line."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # exporters raise many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(f"the network cannot be written by {what}: {lines[0]}") from error


def check_agreement(
    path: Path, network: Callable[[Tensor], Tensor], images: Tensor, logits: Tensor
) -> None:
    """Refuse, and remove, a file that does not give these logits; also for one image alone."""
    with torch.inference_mode():
        found = network(images)
        alone = network(images[:1])
    for given, wanted in ((found, logits), (alone, logits[:1])):
        same = torch.allclose(given, wanted, rtol=1e-3, atol=1e-5)
        if not same or not torch.equal(given.argmax(1), wanted.argmax(1)):
            path.unlink()
            worst = float((given - wanted).abs().max())
            raise ValueError(
                f"{path} does not compute what the network does (logits differ by {worst:.2g}) "
                "and was removed"
            )
