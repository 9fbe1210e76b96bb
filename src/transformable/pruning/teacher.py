"""The unpruned network, trained: the teacher of all that come from it."""

from typing import Any

from lightning_fabric import Fabric
from torch import nn

from ..blueprint import Blueprint
from ..cli.arguments import Train
from ..data import Dataset
from ..networks.weights import load_weights
from ..runs.once import Stages
from ..runs.run_folder import Run
from ..training.evaluate import evaluate
from ..training.train import Trained, train

__all__ = ["scores", "teach"]


def teach(
    stages: Stages,
    config: Train,
    model: nn.Module,
    dataset: Dataset,
    *,
    trained: bool,
    recipe: Blueprint,
    fabric: Fabric,
    **common: Any,
) -> dict[str, Any]:
    """Train the network, or test the one that was given, once; its weights are then in the model.

    ``common`` goes to ``train`` as it is.
    """

    def work(run: Run | None) -> dict[str, Any]:
        if trained:
            if run is not None:
                run.begin()
                run.save_weights(model)
            tested = evaluate(model, dataset.test, fabric=fabric)
            result: dict[str, Any] = {name: tested[name] for name in ("accuracy", "top5", "n")}
            result["seconds"] = 0.0
        else:
            result = scores(train(model, dataset, config, run=run, fabric=fabric, **common))
        if run is not None:
            run.save_recipe(recipe)
        return result

    result, folder = stages.once("teacher", config, work)
    if folder is not None:
        load_weights(model, folder / "model.safetensors")
    model.eval()
    return result


def scores(trained: Trained) -> dict[str, Any]:
    """How a network did on the test set, and how long it was trained."""
    seconds = sum(row["seconds"] for row in trained.history)
    tested = {name: getattr(trained, name) for name in ("accuracy", "top5", "n")}
    return {**tested, "seconds": seconds}
