"""What ``tas export`` does."""

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Group

from ..atomic_files import write_whole
from ..layers import in_order, memory_format_for
from ..networks.blueprint import Blueprint
from ..networks.export import comparison_images
from ..networks.export import export as export_network
from ..networks.load import network_folder
from ..networks.model_card import model_card
from ..runs.run_folder import read_json
from ..shape import Shape
from .evaluate import check_images, trained_on
from .jobs import load_run, load_source
from .outcome import Outcome
from .places import absolute_spec
from .query_options import Export

__all__ = ["export"]


def export(options: Export, command: str) -> Outcome:
    """Write the network of a run folder, and check what was written on the test set."""
    if options.run is None:
        raise ValueError("nothing to export: give the folder of a finished run")
    folder = Path(options.run)
    source = trained_on(folder, options.data, options.data_dir)
    if not (folder / "result.json").is_file():
        raise ValueError(f"run {folder} is not finished; run its command again to continue")
    place = network_folder(folder)
    blueprint = Blueprint.read(place)
    if options.model is not None:
        blueprint = replace(blueprint, model=absolute_spec(options.model))
    dataset = load_source(source, workers=options.workers)
    check_images(folder, options.data, dataset)
    model = load_run(folder, options.model, dataset.info, options.trust)
    path, out = place / "shape.json", Path(options.out) if options.out else folder / "export"
    shape = Shape.read(path) if path.is_file() else None
    images = comparison_images(dataset)
    images = in_order(images, memory_format_for(model, images[:2]))
    result = export_network(model, out, images, blueprint=blueprint, shape=shape)
    params = sum(parameter.numel() for parameter in model.parameters())
    summary = {"params": params, "macs": None, **source, **read_json(folder / "result.json")}
    write_whole(out / "README.md", model_card(summary, dataset.info, blueprint, result))
    failed = {n: why for n, why in result["left_out"].items() if "not installed" not in why}
    for name, reason in failed.items():
        raise ValueError(f"{out} has no {name}: {reason}")
    return ExportOutcome(title=f"{source['model']} on {source['data']}", result=result)


@dataclass(frozen=True, kw_only=True)
class ExportOutcome(Outcome):
    """The files that were written and checked, and those that could not be written."""

    def show(self) -> Group:
        result = self.result
        return self.table(
            ((name, f"{size:,} bytes") for name, size in result["files"].items()),
            f"{result['out']}: each computes the network's logits on {result['checked']:,} images",
            *(f"left out: {name}: {reason}" for name, reason in result["left_out"].items()),
        )
