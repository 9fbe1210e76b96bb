"""The search: weights and sizes learn in turn, each on its own half of the images."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..data import Dataset, Split, stratified
from ..settings import Searching
from ..shape import Shape
from ..slimming.sort_channels import sort_channels
from ..supernet.supernet import SuperNet
from ..tracing.space import Space
from ..training.checkpoints import Saver
from ..training.session import Session
from ..training.train import check_steps, own_randomness
from .derive import Derived, check_possible, derive
from .search_log import Log, State
from .search_step import Alternate

__all__ = ["Searched", "search"]


@dataclass(frozen=True, kw_only=True)
class Searched:
    """The shape that was found, and how."""

    derived: Derived
    budget: Budget
    chances: dict[str, Tensor]
    """The learned probabilities of each layer's widths and each stage's depths."""
    history: list[dict[str, Any]]
    """One row an epoch, as in metrics.csv."""
    net: SuperNet

    @property
    def shape(self) -> Shape:
        """The shape itself."""
        return self.derived.shape


def search(
    model: nn.Module,
    dataset: Dataset,
    budget: Budget | str | float,
    settings: Searching | None = None,
    session: Session | None = None,
    *,
    space: Space | None = None,
) -> Searched:
    """Learn the widths and depths of ``model``, from the weights that it has, and derive a shape.

    The model itself stays as it is. If the session has a run folder, the search is kept there and
    continues from there, to the same bits, as in training.

    >>> from transformable import models
    >>> from transformable.data import from_tensors
    >>> images = torch.rand(40, 3, 8, 8), torch.arange(40) % 2
    >>> net = models.build("resnet20", num_classes=2)
    >>> dataset = from_tensors(images, images, validation=0)
    >>> found = search(net, dataset, 0.5, Searching(epochs=1, batch_size=10))
    >>> found.budget.low <= found.derived.cost <= found.budget.high
    True
    """
    settings = settings or Searching()
    session = session or Session()
    fabric, progress, seed = session.fabric, session.progress, session.seed
    space = space or Space.trace(model, dataset.info.input_shape)
    if not isinstance(budget, Budget):
        budget = Budget.of(budget, space)
    check_possible(space, budget)
    weights, architecture = halves(dataset.train, seed)
    size = settings.batch_size
    steps = min(check_steps(half, size, fabric.world_size) for half in (weights, architecture))
    net = make_supernet(model, space, settings, seed).to(fabric.device)
    alternate = Alternate(net, budget, settings, steps, fabric)
    saver = Saver(session, alternate.parts())
    with saver, own_randomness(fabric):
        state = saver.restore(State())
        log = Log(session.run, state)
        progress.start("searching", settings.epochs * steps, state.step)
        for epoch in range(len(state.history), settings.epochs):
            start = state.step - epoch * steps
            place = {"seed": seed, "epoch": epoch, "start": start, **session.rank()}
            net.train()
            batches = (half.shuffled(size, **place) for half in (weights, architecture))
            for ours, theirs in zip(*batches, strict=False):
                (ours, theirs) = fabric.to_device((ours, theirs))
                row = alternate(state.step, seed, ours, theirs)
                state.step += 1
                log.add({"step": state.step, "epoch": epoch + 1, **row})
                progress.advance(state.step)
                progress.note(_words(row, budget))
                saver.after_step(state, log.settle)
            log.close_epoch(net.probabilities())
            saver.save_epoch(state)
    chances = {name: p.detach().cpu() for name, p in net.probabilities().items()}
    return Searched(
        derived=derive(chances, space, budget),
        budget=budget,
        chances=chances,
        history=state.history,
        net=net,
    )


def halves(split: Split, seed: int) -> tuple[Split, Split]:
    """Two halves with the same share of every class: for the weights, and for the sizes."""
    rest, part = stratified(split.labels, 0.5, seed)
    return split.subset(rest), split.subset(part)


def make_supernet(model: nn.Module, space: Space, settings: Searching, seed: int) -> SuperNet:
    """The searchable twin, with logits that the seed decides."""
    if settings.sort:
        model = sort_channels(model, space)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SuperNet(model, space, settings.select, settings.align, settings.sampling)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return net


def _words(row: dict[str, Any], budget: Budget) -> str:
    unit = 1e6 if budget.value >= 1e6 else 1e3
    cost, low, high = (value / unit for value in (row["derived"], budget.low, budget.high))
    letter = "M" if unit == 1e6 else "K"
    return (
        f"{budget.metric} {cost:.2f}{letter}, band {low:.2f} to {high:.2f}{letter}, "
        f"discrepancy {row['discrepancy']:.2f}"
    )
