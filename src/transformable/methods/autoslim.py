"""AutoSlim: Towards One-Shot Architecture Search for Channel Numbers. Yu, Huang. arXiv 2019.

A slimmable network is trained by the sandwich rule: at each step the largest network learns from
the labels, and the smallest and two random ones, which are parts of it, from its answers. Then the
layer that hurts least is narrowed, again and again, until the budget holds; before a network is
judged, its batch norms are calibrated again.

Ours starts from a trained network, so a narrow layer keeps not its first channels but its best
ones, ranked once at the start. Its widths are the candidates of the space, up to the network as it
is (the paper: 0.15 to 1.5 times). The four losses of a step are averaged, not added, which keeps
the learning rate that of plain training. Layers that are added to each other are narrowed
together. In a network of more than a dozen such groups several are narrowed between two looks at
all of them, or that would take longer than the training. Where every step jumps over the band, the
last one goes by single channels. The small network keeps the weights that it has in the slimmable
one; the paper trains it again from scratch.
"""

import copy
from bisect import bisect
from collections.abc import Callable, Iterator
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..costing.budget import Budget
from ..shape import Shape
from ..slimming.slim import slim
from ..slimming.sort_channels import importance
from ..tracing import kept_channels
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ..training.evaluate import evaluate
from ..training.train import Objective, cross_entropy, own_randomness
from ._calibration import recalibrate, some
from ._channel_choice import Scores, by_ratio, loosened, strongest
from .interface import Context, MethodResult

__all__ = ["answers", "autoslim", "greedy", "sandwich"]

RANDOM = 2
"""Random networks a step."""
JUDGED = 500
"""Held-out images that a step is judged by."""
RECALIBRATED = 256
"""Training images that the norms of a network see before it is judged."""
BATCH = 64
DOZEN = 12
"""Of so many groups one is narrowed before all are looked at again."""

Score = Callable[[Shape], tuple[float, float]]
"""The accuracy and the loss of the network of a shape."""
Widths = dict[str, int]
"""By group."""


def autoslim(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Train a slimmable network, then narrow it layer by layer."""
    groups = ChannelGroups(space)
    ranks = importance(model, space, groups.mean)
    by_ratio(groups, budget, ranks)  # refuses, before anything is trained, what cannot be met
    network = copy.deepcopy(model)
    context.train(network, objective=sandwich(network, groups, ranks, context))
    seen = some(context.dataset.train, RECALIBRATED, context.session.seed)
    judges = some(context.dataset.validation, JUDGED, context.session.seed)

    def small(shape: Shape) -> nn.Module:
        # whole batches: a norm can make nothing of a last one of a single image
        batches = (x for x, _ in seen.shuffled(BATCH, seed=context.session.seed, epoch=0))
        return recalibrate(slim(network, space, shape), batches, context.session.fabric)

    def score(shape: Shape) -> tuple[float, float]:
        found = evaluate(small(shape), judges, fabric=context.session.fabric)
        return found["accuracy"], found["loss"]

    with own_randomness(context.session.fabric):
        for steps, shape in enumerate(greedy(groups, budget, ranks, score)):
            cost = budget.cost(space, shape)
            context.session.progress.note(f"narrowed {steps} times: {cost:,} {budget.metric}")
        shape = loosened(groups, budget, ranks, shape)
        return MethodResult(
            shape=shape,
            model=small(shape).train(model.training),
            cost=budget.cost(space, shape),
            notes={"steps": steps, "judged_by": len(judges)},
        )


def sandwich(model: nn.Module, groups: ChannelGroups, ranks: Scores, context: Context) -> Objective:
    """The largest network learns from the labels, the smallest and random ones from its answers.

    All are parts of the parameters of `model`, so that is where their gradients go.
    """
    of_labels = cross_entropy(context.searching.label_smoothing)
    candidates = {
        head: [width for width in groups.space.widths[head] if width <= size] or [size]
        for head, size in groups.sizes.items()
    }
    smallest = strongest(groups, ranks, {head: widths[0] for head, widths in candidates.items()})

    def drawn() -> Shape:
        places = {head: int(torch.randint(len(each), ())) for head, each in candidates.items()}
        return strongest(groups, ranks, {head: candidates[head][i] for head, i in places.items()})

    def objective(network: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = of_labels(network, x, y)
        targets = outcome["logits"].detach().float().softmax(1)
        losses = [outcome["loss"]]
        for shape in (smallest, *(drawn() for _ in range(RANDOM))):
            with context.session.fabric.autocast():
                logits = answers(model, groups.space, shape, x)
            losses.append(F.cross_entropy(logits.float(), targets))
        return {"loss": torch.stack(losses).mean(), "logits": outcome["logits"]}

    return objective


def answers(model: nn.Module, space: Space, shape: Shape, x: Tensor) -> Tensor:
    """What the network of a shape says, made of parts of the parameters of `model`.

    What only the small network has, the projection of a shortcut, stays as `slim` starts it.
    """
    template = slim(model, space, shape)
    whole = _parts(model, space, shape)
    parts = {name: whole[name] for name, _ in template.named_parameters() if name in whole}
    logits: Tensor = torch.func.functional_call(template, parts, (x,))
    return logits


def _parts(model: nn.Module, space: Space, shape: Shape) -> dict[str, Tensor]:
    """Every parameter, with the channels that the shape keeps."""
    masks = space.masks(shape)
    parts: dict[str, Tensor] = dict(model.named_parameters())
    for layer in space.layers:
        if layer.kind == "constant":
            continue
        outs, ins = (
            _index(kept_channels(space.layouts, masks, i)) for i in (layer.outputs, layer.inputs)
        )
        for name, whole in model.get_submodule(layer.name).named_parameters(layer.name):
            matrix = layer.kind in ("conv", "linear") and whole.ndim > 1
            parts[name] = whole[outs][:, ins] if matrix else whole[outs]
    return parts


def _index(channels: list[int]) -> slice | Tensor:
    # a slice is a view, which costs nothing
    leading = channels == list(range(len(channels)))
    return slice(len(channels)) if leading else torch.tensor(channels)


def greedy(groups: ChannelGroups, budget: Budget, ranks: Scores, score: Score) -> Iterator[Shape]:
    """The shapes on the way from the network as it is to the target, each narrower by a step.

    Of all steps the one that leaves the best accuracy is taken, or, if several do, the lowest loss.
    None goes below the band. Where no step is left, the way ends.
    """
    widths = dict(groups.sizes)

    def cost(widths: Widths) -> int:
        return budget.cost(groups.space, strongest(groups, ranks, widths))

    def harm(step: Widths) -> tuple[float, float]:
        accuracy, loss = score(strongest(groups, ranks, {**widths, **step}))
        return -accuracy, loss

    yield strongest(groups, ranks, widths)
    while cost(widths) > budget.value:
        steps = sorted(_steps(groups, budget, widths, cost), key=harm)
        if not steps:
            return
        for step in steps[: ceil(len(groups.sizes) / DOZEN)]:
            narrower = {**widths, **step}
            if cost(widths) > budget.value and cost(narrower) >= budget.low:
                widths = narrower
                yield strongest(groups, ranks, widths)


def _steps(
    groups: ChannelGroups, budget: Budget, widths: Widths, cost: Callable[[Widths], int]
) -> list[Widths]:
    """One group to its next candidate; or, if all these jump over the band, as far as the target.

    Below the smallest candidate a step is a tenth of the group.
    """

    def allowed(steps: list[Widths]) -> list[Widths]:
        return [step for step in steps if cost({**widths, **step}) >= budget.low]

    def nearest(head: str, low: int) -> Widths:
        between = range(low, widths[head])
        place = bisect(between, budget.value, key=lambda width: cost({**widths, head: width}))
        beside = [{head: width} for width in between[max(0, place - 1) : place + 1]]
        return min(beside, key=lambda step: abs(cost({**widths, **step}) - budget.value))

    whole: Widths = {}
    for head, width in widths.items():
        least = max(1, width - max(1, groups.sizes[head] // 10))
        low = max((c for c in groups.space.widths[head] if c < width), default=least)
        if low < width:
            whole[head] = low
    return allowed([{head: low} for head, low in whole.items()]) or allowed(
        [nearest(head, low) for head, low in whole.items()]
    )
