"""The end of a job: time both networks, export the small one, write the result and the report."""

import tempfile
from pathlib import Path
from typing import Any

from torch import nn

from ..atomic_files import write_whole
from ..methods import MethodResult
from ..networks import onnx_file
from ..networks.blueprint import Blueprint
from ..networks.export import comparison_images, export
from ..networks.model_card import model_card
from ..networks.speed import measure_speed, time_as_promised
from ..report import write_report
from ..training.session import Session
from .job import PruningJob
from .result import job_result
from .steps import blueprint_of

__all__ = ["conclude"]


def conclude(
    job: PruningJob,
    found: MethodResult,
    student: nn.Module,
    scores: dict[str, dict[str, Any]],
    search_seconds: float,
    session: Session,
) -> dict[str, Any]:
    """Time both networks, export the small one and write the report, if there is a run folder.

    ``scores`` are those of the networks "before" and "after". Returns the content of result.json.
    """
    networks = {"before": job.model, "after": student}
    run, blueprint, device = session.run, blueprint_of(job, found), session.fabric.device
    exported: dict[str, Any] = {}
    if run is not None and job.export:
        session.progress.start("exporting", 0, 0)
        images, out = comparison_images(job.dataset), run.folder / "export"
        exported = export(student, out, images, blueprint=blueprint, shape=found.shape)
    session.progress.start("measuring the speed", 0, 0)
    with tempfile.TemporaryDirectory() as scratch:
        onnx = _onnx_files(job.model, blueprint, exported, Path(scratch))
        speed = measure_speed(
            networks,
            blueprint.input_shape,
            device=device,
            onnx=onnx,
            large_batch=job.large_batch,
        )
    timed, latency = None, job.budget.timed
    if latency is not None and latency.timer is not None:  # else the times are of another machine
        timed = time_as_promised(networks, blueprint.input_shape, latency, device)
    result = job_result(job, found, networks, scores, search_seconds, speed, timed)
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
    """Both networks as ONNX files to be timed, if the small one could be exported to ONNX."""
    if "model.onnx" not in exported.get("files", {}):
        return {}
    before = scratch / "before.onnx"
    try:
        onnx_file.write(teacher, blueprint.input_shape, before)
    except ValueError:  # then both are timed in PyTorch alone
        return {}
    return {"before": before, "after": Path(exported["out"]) / "model.onnx"}
