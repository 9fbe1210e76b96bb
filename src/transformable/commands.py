"""What ``tas train`` and ``tas evaluate`` do."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Group
from rich.table import Table

from . import data, factory
from .config import Evaluate, Train
from .configfile import read_config
from .cost import macs as count_macs
from .devices import make_fabric
from .evaluation import evaluate as evaluate_model
from .interrupt import Interrupted
from .progress import Bar
from .runs import Run, default_folder
from .space import Space
from .training import check_steps
from .training import train as train_model
from .weights import load_weights

__all__ = ["Outcome", "evaluate", "train"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A result, and the same as a table."""

    title: str
    result: dict[str, Any]

    def show(self) -> Group:
        table = Table(show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        for name, value in self.result.items():
            table.add_row(name.replace("_", " "), _words(name, value))
        # above the table, not in it, where a long name would be broken at the table's width
        return Group(self.title, table)


def train(args: Train) -> Outcome | None:
    """Train a network in a run folder; None in all processes but the first."""
    folder = Path(args.out) if args.out else default_folder(args)
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not first:
        _train(args, folder, None)
        return None
    with Run.open(folder, args) as run:
        result = run.result()
        if result is None:
            result = _train(args, folder, run)
            run.save_result(result)
    return Outcome(title=f"{args.model} on {args.data}", result=result)


def _train(args: Train, folder: Path, run: Run | None) -> dict[str, Any]:
    fabric = make_fabric(args.device, devices=args.devices, precision=args.precision)
    dataset = data.load(
        args.data,
        args.data_dir,
        validation=args.validation,
        seed=args.seed,
        download=args.download,
        workers=args.workers,
    )
    torch.manual_seed(args.seed)
    model = _network(args.model, dataset.info)
    macs = _macs(model, dataset.info.input_shape)
    # all that can be wrong is found before other processes are started
    check_steps(dataset.train, args.batch_size, args.devices)
    fabric.launch()
    with Bar() as bar:
        try:
            trained = train_model(
                model,
                dataset,
                args,
                seed=args.seed,
                run=run,
                fabric=fabric,
                checkpoint_seconds=args.checkpoint_seconds,
                progress=bar,
            )
        except Interrupted as stop:
            raise Interrupted(f"{stop}; run the same command again to go on") from None
    return {
        "accuracy": trained.accuracy,
        "top5": trained.top5,
        "n": trained.n,
        "validation_accuracy": trained.history[-1]["validation_accuracy"],
        "macs": macs,
        "params": sum(p.numel() for p in model.parameters()),
        "epochs": args.epochs,
        "seconds": sum(row["seconds"] for row in trained.history),
        "model": args.model,
        "data": args.data,
        "seed": args.seed,
        "out": str(folder),
    }


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
    model = _network(spec, dataset.info)
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
    config = read_config(folder / "config.toml", Train())
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ValueError(f"run {folder} is not finished; run its tas train command again to go on")
    source = Train(
        data=args.data or config.data,
        data_dir=config.data_dir if args.data in (None, config.data) else None,
        validation=config.validation,
        seed=config.seed,
    )
    return config.model, weights, source


def _network(spec: str, info: data.Info) -> torch.nn.Module:
    (channels, _, _) = info.input_shape
    model = factory.build(spec, num_classes=info.num_classes, in_channels=channels)
    factory.check_outputs(model, info.input_shape, info.num_classes, info.name)
    return model


def _macs(model: torch.nn.Module, input_shape: tuple[int, int, int]) -> int | None:
    try:
        space = Space.trace(model, input_shape)
    except ValueError:  # a network need not be traceable to be trained
        return None
    return count_macs(space, space.full)


def _words(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name in ("accuracy", "top5", "validation_accuracy"):
        return f"{value:.2%}"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and name != "seed" else str(value)
