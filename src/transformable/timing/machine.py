"""The environment of a measurement: versions, processor and threads."""

import platform
from pathlib import Path
from typing import Any

import torch

__all__ = ["describe_machine", "processor"]


def describe_machine() -> dict[str, Any]:
    """The versions, processor and threads that results were measured with."""
    from .. import __version__

    return {
        "transformable": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": processor(),
        "threads": torch.get_num_threads(),
    }


def processor() -> str:
    """The name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
