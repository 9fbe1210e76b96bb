"""The extras of the package: what each adds, and which of them are installed."""

import importlib.util

__all__ = ["EXTRAS", "is_installed", "missing_extras"]

EXTRAS = {
    "export": ("ONNX files and times in onnxruntime", ("onnx", "onnxscript", "onnxruntime")),
    "methods": ("the methods cp and torch-pruning", ("sklearn", "torch_pruning")),
    "sweep": ("sweeps that machines share", ("optuna",)),
    "tensorboard": ("curves in TensorBoard", ("tensorboard",)),
}
"""What each extra adds, and the modules that it consists of; pyproject.toml has the versions."""


def is_installed(extra: str) -> bool:
    """Whether all modules of an extra are there."""
    _, modules = EXTRAS[extra]
    return all(importlib.util.find_spec(name) is not None for name in modules)


def missing_extras() -> list[str]:
    """A line on what the extras that are not installed would add; no line if all are installed."""
    missing = [extra for extra in EXTRAS if not is_installed(extra)]
    if not missing:
        return []
    added = ", ".join(f"{EXTRAS[extra][0]} ({extra})" for extra in missing)
    return [f"not installed: {added}; pip install 'transformable[{','.join(missing)}]' adds them"]
