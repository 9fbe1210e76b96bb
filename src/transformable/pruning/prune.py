"""The whole job in one call: a network and a budget in, a smaller, trained network out."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from lightning_fabric import Fabric
from torch import nn

from ..atomic_files import weights_as_bytes
from ..blueprint import Blueprint
from ..cli.arguments import Prune
from ..costing.budget import Budget
from ..data import Dataset
from ..presets import quick_search, quick_teacher, quick_transfer
from ..runs.progress import Progress, Silent
from ..runs.run_folder import Run
from ..settings import Distilling, Metric, Searching, Training
from ..tracing.space import Space
from ..training.devices import make_fabric
from .pipeline import Pipeline, Pruned

__all__ = ["prune"]


def prune(
    model: nn.Module,
    data: Dataset,
    budget: str | float = 0.5,
    *,
    metric: Metric = "macs",
    trained: bool = False,
    training: Training | None = None,
    searching: Searching | None = None,
    distilling: Distilling | None = None,
    space: Space | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    fabric: Fabric | None = None,
    progress: Progress | None = None,
) -> Pruned:
    """Give a network and a budget, get a smaller, trained network; ``model`` stays as it is.

    Say ``trained=True`` if the model is trained already. The settings of the three stages are those
    of the preset quick unless given. With a folder ``out``, all is kept there, with an export and a
    report, and the same call goes on where an interrupted one stopped.

    >>> import torch
    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> net = models.build("resnet20", num_classes=2)
    >>> short = {"epochs": 1, "batch_size": 10}
    >>> pruned = prune(
    ...     net,
    ...     from_tensors(images, images, validation=0),
    ...     budget=0.5,
    ...     training=Training(**short),
    ...     searching=Searching(**short),
    ...     distilling=Distilling(**short),
    ... )
    >>> before, after = pruned.summary["before"]["macs"], pruned.summary["after"]["macs"]
    >>> 0.475 <= after / before <= 0.525
    True
    """
    name, searching = data.info.name, searching or quick_search(data.info.name)
    space = space or Space.trace(model, data.info.input_shape)
    job = Prune(
        model=type(model).__name__,
        data=name,
        budget=str(budget),
        metric=metric,
        tolerance=searching.tolerance,
        residual=space.residual,
        seed=seed,
    )
    pipeline = Pipeline(
        model=copy.deepcopy(model),
        dataset=data,
        space=space,
        budget=Budget.of(budget, space, metric=metric, tolerance=searching.tolerance),
        trained=trained,
        training=training or quick_teacher(name),
        searching=searching,
        distilling=distilling or quick_transfer(name),
        job=job,
        recipe=Blueprint(
            model=None,
            num_classes=data.info.num_classes,
            input_shape=data.info.input_shape,
            residual=space.residual,
        ),
        fabric=fabric or make_fabric(),
        progress=progress or Silent(),
    )
    if out is None:
        return pipeline(None)
    pipeline.check()
    with Run.open(out, job) as run:
        run.begin()
        run.claim(_fingerprint(model, data, space, trained))
        return pipeline(run)


def _fingerprint(model: nn.Module, data: Dataset, space: Space, trained: bool) -> dict[str, Any]:
    """What a config cannot say of a call: which network, which images, which sizes."""
    images, labels = next(iter(data.test.ordered(min(100, len(data.test)))))
    seen = b"".join(t.contiguous().numpy().tobytes() for t in (data.train.labels, images, labels))
    sizes = json.dumps([dict(space.widths), dict(space.depths)]).encode()
    parts = {"model": weights_as_bytes(model), "data": seen, "space": sizes}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in parts.items()}
    return {**digests, "trained": trained}
