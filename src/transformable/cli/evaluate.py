"""What ``tas evaluate`` does."""

from pathlib import Path
from typing import Any

from ..data import Dataset
from ..networks.build import build_for_dataset
from ..networks.load import network_folder
from ..networks.weights import load_weights
from ..runs.run_folder import other_inputs, read_settings
from ..training.devices import make_fabric
from ..training.evaluate import evaluate as evaluate_model
from .jobs import load_run, load_source
from .outcome import Outcome
from .places import names_a_dataset
from .progress_bar import show_progress
from .query_options import Evaluate

__all__ = ["check_images", "evaluate", "trained_on"]


def evaluate(options: Evaluate, command: str) -> Outcome:
    """Test a network on the test set."""
    fabric = make_fabric(options.device, precision=options.precision)
    if options.run is not None:
        if options.weights is not None:
            raise ValueError(f"run folder {options.run} has its own weights; leave out --weights")
        source = trained_on(Path(options.run), options.data, options.data_dir)
    elif options.model is not None and options.weights is not None:
        data = options.data or "digits"
        source = {"model": options.model, "data": data, "data_dir": options.data_dir}
    else:
        raise ValueError("nothing to evaluate: give a run folder, or --model and --weights")
    if options.mean or options.std:
        source |= {"mean": options.mean, "std": options.std}
    if options.image_size is not None:
        source["image_size"] = options.image_size
    dataset = load_source(source, download=options.download, workers=options.workers)
    if options.run is not None:
        check_images(Path(options.run), options.data, dataset)
        model = load_run(Path(options.run), options.model, dataset.info, options.trust)
    else:
        assert options.weights is not None
        model = build_for_dataset(source["model"], dataset.info)
        load_weights(model, options.weights)
    batches = -(-len(dataset.test) // options.batch_size)
    with show_progress() as bar:
        bar.start("testing", batches, 0)
        size = options.batch_size
        scores = evaluate_model(
            model, dataset.test, batch_size=size, fabric=fabric, after_batch=bar.advance
        )
    result = {name: scores[name] for name in ("accuracy", "top5", "loss", "n")}
    result["num_classes"] = dataset.info.num_classes
    return Outcome(title=f"{source['model']} on {source['data']}", result=result)


def check_images(folder: Path, given: str | None, dataset: Dataset) -> None:
    """Refuse images that are not those of the run, unless the dataset was named."""
    inputs = {"images": dataset.fingerprint}
    if given is None and other_inputs(network_folder(folder), inputs):
        raise ValueError(
            f"the images of {dataset.info.name} differ from those that {folder} was made with; "
            f"restore them, or give --data {dataset.info.name} to use these"
        )


def trained_on(
    folder: Path, other: str | None = None, data_dir: str | None = None
) -> dict[str, Any]:
    """The network, dataset and seed of a finished run, or another dataset if that is given."""
    settings = read_settings(network_folder(folder))
    if other is None and not names_a_dataset(settings["data"]):
        raise ValueError(
            f"run {folder} was made in Python, on data of its own ({settings['data']}); use "
            "tas.load and tas.evaluate there, or give --data"
        )
    same = other in (None, settings["data"])
    names = ("model", "validation", "seed", "image_size", "mean", "std")
    return {
        **{name: settings[name] for name in names if name in settings},
        "data": other or settings["data"],
        "data_dir": data_dir or (settings.get("data_dir") if same else None),
    }
