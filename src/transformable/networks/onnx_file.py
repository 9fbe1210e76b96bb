"""Write a network as an ONNX file and run it with onnxruntime; needs the extra ``export``."""

import contextlib
import copy
import logging
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..atomic_files import write_whole
from ..extras import is_installed

__all__ = ["available", "exporter_errors", "session", "write"]


def available() -> bool:
    """Whether onnx, onnxscript and onnxruntime are installed."""
    return is_installed("export")


def write(model: nn.Module, input_shape: tuple[int, int, int], path: Path) -> None:
    """Write a copy of the model in evaluation mode; input ``images`` (any N), output ``logits``.

    A ValueError says in one line why it cannot be written.
    """
    if not available():
        raise ValueError("not installed; pip install 'transformable[export]'")
    with exporter_errors("ONNX"), warnings.catch_warnings(action="ignore"):
        program = torch.onnx.export(
            copy.deepcopy(model).cpu().eval(),
            (torch.zeros(2, *input_shape),),
            dynamo=True,
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            input_names=["images"],
            output_names=["logits"],
            verbose=False,
        )
        assert program is not None
        content = program.model_proto.SerializeToString()
    write_whole(path, lambda file: file.write(content))


@contextlib.contextmanager
def exporter_errors(exporter: str) -> Iterator[None]:
    """Turn what an exporter raises into a ValueError of one line, and mute its log messages."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # exporters raise many kinds
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = re.sub(r"\x1b\[[0-9;]*m", "", lines[0])  # colours
        raise ValueError(f"the network cannot be written by {exporter}: {reason}") from error
    finally:
        logging.disable(logging.NOTSET)


def session(path: Path) -> Callable[[Any], Any]:
    """A function from an array of images to an array of logits, with as many threads as torch."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    runtime = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda images: runtime.run(["logits"], {"images": images})[0]
