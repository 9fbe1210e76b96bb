"""What ``tas evaluate`` does."""

from pathlib import Path

import torch

from .. import data
from ..arguments import Evaluate, Train
from ..configfile import read_config
from ..devices import make_fabric
from ..evaluation import evaluate as evaluate_model
from ..factory import network
from ..progress import Bar
from ..shape import Shape
from ..slimming import slim
from ..space import Space
from ..weights import load_weights
from . import Outcome

__all__ = ["evaluate"]


def evaluate(args: Evaluate) -> Outcome:
    """Test a network on the test set."""
    fabric = make_fabric(args.device, precision=args.precision)
    if args.run is not None:
        (spec, weights, source) = _of_run(args, Path(args.run))
    elif args.model is not None and args.weights is not None:
        (spec, weights) = (args.model, Path(args.weights))
        source = Train(data=args.data or "digits", data_dir=args.data_dir)
    else:
        raise ValueError("nothing to evaluate: give a run folder, or --model and --weights")
    dataset = data.load(
        source.data,
        args.data_dir or source.data_dir,
        validation=source.validation,
        seed=source.seed,
        download=args.download,
        workers=args.workers,
    )
    model = network(spec, dataset.info)
    if source.shape is not None:
        space = Space.trace(model, dataset.info.input_shape, residual=source.residual)
        model = slim(model, space, Shape.read(source.shape))
    load_weights(model, weights)
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
    return Outcome(title=f"{spec} on {source.data}", result=result)


def _of_run(args: Evaluate, folder: Path) -> tuple[str, Path, Train]:
    for name in ("model", "weights"):
        if getattr(args, name) is not None:
            raise ValueError(f"run folder {folder} has its own {name}; leave out --{name}")
    if not (folder / "config.toml").is_file():
        raise ValueError(f"{folder} is not a run folder: it has no config.toml")
    weights, shape = folder / "model.safetensors", folder / "shape.json"
    if not weights.is_file() and shape.is_file():
        raise ValueError(
            f"run {folder} is a search and has no trained network; train one of its shape first: "
            f"tas train --shape {shape} (with the --model, --data and --residual of the search)"
        )
    if not weights.is_file():
        raise ValueError(f"run {folder} is not finished; run its tas train command again to go on")
    config = read_config(folder / "config.toml", Train())
    source = Train(
        shape=str(shape) if config.shape is not None else None,
        residual=config.residual,
        data=args.data or config.data,
        data_dir=config.data_dir if args.data in (None, config.data) else None,
        validation=config.validation,
        seed=config.seed,
    )
    return config.model, weights, source
