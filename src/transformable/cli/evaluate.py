"""What ``tas evaluate`` does."""

import tomllib
from pathlib import Path
from typing import Any

import torch

from .. import data
from ..networks.build import build_for_dataset
from ..networks.load import load, network_folder
from ..networks.weights import load_weights
from ..runs.progress import Bar
from ..training.checks import check_outputs
from ..training.devices import make_fabric
from ..training.evaluate import evaluate as evaluate_model
from .arguments import Train
from .outcome import Outcome
from .queries import Evaluate

__all__ = ["evaluate", "trained_on"]


def evaluate(args: Evaluate) -> Outcome:
    """Test a network on the test set."""
    fabric = make_fabric(args.device, precision=args.precision)
    if args.run is not None:
        if args.weights is not None:
            raise ValueError(f"run folder {args.run} has its own weights; leave out --weights")
        source = trained_on(Path(args.run), args.data, args.data_dir)
    elif args.model is not None and args.weights is not None:
        source = {"data": args.data or "digits", "data_dir": args.data_dir, "model": args.model}
    else:
        raise ValueError("nothing to evaluate: give a run folder, or --model and --weights")
    dataset = data.load(
        source["data"],
        source["data_dir"],
        validation=source.get("validation", Train.validation),
        seed=source.get("seed", 0),
        download=args.download,
        workers=args.workers,
    )
    if args.run is not None:
        info = dataset.info
        model = load(args.run, None if args.model is None else build_for_dataset(args.model, info))
        check_outputs(model, info)
    else:
        assert args.weights is not None
        model = build_for_dataset(source["model"], dataset.info)
        load_weights(model, args.weights)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = -(-len(dataset.test) // args.batch_size)
    with Bar() as bar:
        bar.start("testing", batches, 0)
        scores = evaluate_model(
            model,
            dataset.test,
            batch_size=args.batch_size,
            fabric=fabric,
            each_batch=bar.advance,
        )
    result = {name: scores[name] for name in ("accuracy", "top5", "loss", "n")}
    return Outcome(title=f"{source['model']} on {source['data']}", result=result)


def trained_on(
    folder: Path, other: str | None = None, data_dir: str | None = None
) -> dict[str, Any]:
    """Network, dataset and seed of a finished run; the data may be other than the run's."""
    path = network_folder(folder) / "config.toml"
    if not path.is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.toml")
    config = tomllib.loads(path.read_text(encoding="utf-8"))
    same = other in (None, config["data"])
    return {
        "model": config["model"],
        "data": other or config["data"],
        "data_dir": data_dir or (config.get("data_dir") if same else None),
        "validation": config["validation"],
        "seed": config["seed"],
    }
