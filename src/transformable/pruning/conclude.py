"""The end of a job: both networks are timed, the small one is exported, the result is explained."""

import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from ..atomic_files import weights_as_bytes, write_whole
from ..methods import MethodResult
from ..networks import onnx_file
from ..networks.blueprint import Blueprint
from ..networks.export import comparison_images, export
from ..networks.model_card import model_card
from ..networks.speed import measure_speed
from ..report import write_report
from ..training.session import Session
from .job import PruningJob
from .result import result_numbers
from .steps import blueprint_of

__all__ = ["conclude"]


def conclude(
    job: PruningJob,
    found: MethodResult,
    student: nn.Module,
    scores: dict[str, dict[str, Any]],
    seconds: dict[str, float],
    session: Session,
) -> dict[str, Any]:
    """All numbers of the job, as in result.json; ``scores`` are those of "before" and "after"."""
    networks = {"before": job.model, "after": student}
    run, blueprint, device = session.run, blueprint_of(job, found), session.fabric.device
    exported: dict[str, Any] = {}
    if run is not None and job.export:
        session.progress.start("exporting", 1, 0)
        images, out = comparison_images(job.dataset), run.folder / "export"
        exported = export(student, out, images, blueprint=blueprint, shape=found.shape)
    session.progress.start("measuring", 1, 0)
    with tempfile.TemporaryDirectory() as scratch:
        onnx = _onnx_files(job.model, blueprint, exported, Path(scratch))
        speed = measure_speed(networks, blueprint.input_shape, device=device, onnx=onnx)
    result = {
        **result_numbers(
            job.space,
            found.shape,
            job.budget,
            tested=scores,
            sizes={name: len(weights_as_bytes(net)) for name, net in networks.items()},
            speed=speed,
        ),
        "method": job.method_name,
        "notes": found.notes,
        "measured": found.restore_budget is not None,
        "folders": dict(job.folders),
        "transfer": job.distilling.transfer,
        "trained": job.trained,
        "seconds": seconds,
        "command": job.command,
        "teacher": job.source.get("teacher"),
        **{name: job.source[name] for name in ("model", "data", "seed")},
    }
    if found.restore_budget is not None:
        params = sum(parameter.numel() for parameter in student.parameters())
        result["after"] |= {"macs": scores["after"]["cost"], "params": params}
    if run is not None:
        result["out"] = str(run.folder)
        if exported:
            result["export"] = exported
            card = model_card(result, job.dataset.info, blueprint, exported)
            write_whole(run.folder / "export" / "README.md", card)
        run.save_result(result)
        write_report(run.folder)
    return result


def _onnx_files(
    teacher: nn.Module, blueprint: Blueprint, exported: dict[str, Any], scratch: Path
) -> dict[str, Path]:
    """Both networks as ONNX files to be timed, if the small one could be written as one."""
    if "model.onnx" not in exported.get("files", {}):
        return {}
    before = scratch / "before.onnx"
    try:
        onnx_file.write(teacher, blueprint.input_shape, before)
    except ValueError:  # then both are timed in PyTorch alone
        return {}
    return {"before": before, "after": Path(exported["out"]) / "model.onnx"}
