"""Export a trained network to files, each of them read back and compared with the network."""

import copy
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..atomic_files import is_leftover, remove_leftovers, weights_as_bytes, write_whole
from ..data import Dataset
from ..shape import Shape
from . import onnx_file
from .blueprint import BLUEPRINT_FILE, Blueprint
from .load import load
from .weights import load_weights

__all__ = ["check_agreement", "comparison_images", "export"]

MAX_IMAGES = 1000
"""How many test images the files are compared on, at most."""
BATCH_SIZE = 100
FILES = ("model.safetensors", "model.pt2", "model.onnx")

Network = Callable[[Tensor], Tensor]
"""A network, or what was read back from a file of it: logits from images."""


def export(
    model: nn.Module,
    folder: Path,
    images: Tensor,
    *,
    blueprint: Blueprint,
    shape: Shape | None = None,
) -> dict[str, Any]:
    """Write ``model`` into a folder: safetensors with its shape, torch.export and ONNX.

    Each file is read back and must reproduce the network's logits on ``images``. The last two run
    without this package; ``left_out`` of the result says why a format could not be written.
    """
    images = images[:MAX_IMAGES].cpu()
    model = copy.deepcopy(model).cpu().eval()
    logits = _in_batches(model, images)
    left_out = {}
    try:
        _prepare_folder(folder)
        for name, text in blueprint.files(shape).items():
            write_whole(folder / name, text)
        reread = _write_weights(model, folder, blueprint)
        check_agreement(folder / "model.safetensors", reread, images, logits)
        for name, write in (("model.pt2", _write_program), ("model.onnx", _write_onnx)):
            try:
                reread = write(model, folder / name, blueprint.input_shape)
                check_agreement(folder / name, reread, images, logits)
            except ValueError as error:
                left_out[name] = str(error)
    except OSError as error:
        raise ValueError(f"cannot write to {folder}: {error.strerror}") from error
    sizes = {name: (folder / name).stat().st_size for name in FILES if (folder / name).is_file()}
    return {"out": str(folder), "files": sizes, "left_out": left_out, "checked": len(images)}


def comparison_images(dataset: Dataset) -> Tensor:
    """The first test images, on which ``export`` compares the files with the network."""
    x, _ = next(iter(dataset.test.ordered(min(MAX_IMAGES, len(dataset.test)))))
    return x


def check_agreement(path: Path, network: Network, images: Tensor, logits: Tensor) -> None:
    """Remove the file and raise a ValueError if ``network``, read from it, has other logits.

    Compared on all images at once and on the first alone. The tolerance is relative to the largest
    logit; top-1 must be the same except where the two largest logits are that close. Outputs of
    other tasks are compared likewise, all of an image in one row.
    """
    rounding = 1e-5 * max(1.0, float(logits.abs().max()))
    for count in (len(images), 1):
        found, wanted = (
            outputs.reshape(count, -1)
            for outputs in (_in_batches(network, images[:count]), logits[:count])
        )
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


def _prepare_folder(folder: Path) -> None:
    """Make the folder and remove an earlier export from it; refuse one that holds other files."""
    files = [path for path in folder.iterdir() if not is_leftover(path)] if folder.is_dir() else []
    if files and not (folder / BLUEPRINT_FILE).is_file():
        raise ValueError(f"folder {folder} holds other files; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    # the blueprint stays until it is replaced: it marks the folder as an earlier export
    for name in (*FILES, "shape.json"):
        (folder / name).unlink(missing_ok=True)


def _write_weights(model: nn.Module, folder: Path, blueprint: Blueprint) -> Network:
    path = folder / "model.safetensors"
    content = weights_as_bytes(model)
    write_whole(path, lambda file: file.write(content))
    if blueprint.model is not None:
        return load(folder, trust=True)  # the caller has named it
    # a network made in Python cannot be built from its blueprint: read into a copy without weights
    net = copy.deepcopy(model)
    with torch.no_grad():
        for tensor in net.state_dict().values():
            tensor.zero_()
    load_weights(net, path)
    return net


def _write_program(model: nn.Module, path: Path, input_shape: tuple[int, int, int]) -> Network:
    batch = torch.export.Dim("batch", min=1)
    content = io.BytesIO()
    with onnx_file.exporter_errors("torch.export"), warnings.catch_warnings(action="ignore"):
        example = (torch.zeros(2, *input_shape),)
        program = torch.export.export(model, example, dynamic_shapes=({0: batch},), strict=False)
        torch.export.save(program, content)
    write_whole(path, lambda file: file.write(content.getbuffer()))
    with warnings.catch_warnings(action="ignore"):
        return torch.export.load(path).module()


def _write_onnx(model: nn.Module, path: Path, input_shape: tuple[int, int, int]) -> Network:
    onnx_file.write(model, input_shape, path)
    run = onnx_file.session(path)
    return lambda x: torch.from_numpy(run(x.numpy()))


def _in_batches(network: Network, images: Tensor) -> Tensor:
    # in batches, because one layer's output for many photos at once can fill the memory
    with torch.inference_mode():
        return torch.cat([network(batch) for batch in torch.split(images, BATCH_SIZE)])
