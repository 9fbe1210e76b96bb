"""AutoSlim: Towards One-Shot Architecture Search for Channel Numbers. Yu, Huang. arXiv 2019.

A slimmable network is trained by the sandwich rule: at each step the largest network learns from
the labels, and the smallest and two random ones, which share its weights, from its outputs. Then
the layer whose narrowing hurts least is narrowed, repeatedly, until the budget holds; before a
network is evaluated, its batch norms are recalibrated.

Differences from the paper: the network is already trained, so narrow layers keep the most important
channels, ranked once at the start, not the first ones. Widths are the candidates of the space up to
full width, not 0.15 to 1.5 times. The four losses of a step are averaged, not added, so that the
learning rate of plain training fits. Layers that are added to each other are narrowed together. In
networks of more than a dozen groups several are narrowed before all are evaluated again, which
would otherwise take longer than the training. Where every step jumps over the band, the last one
drops single channels. The small network keeps its weights in the slimmable one, and is not trained
again from scratch. Each of the four networks of a step counts: with the passes of a search, of
which evaluation takes half at most, a quarter as many epochs are trained as by other methods.
"""

import copy
from bisect import bisect
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil

import torch
from torch import Tensor, nn

from ..costing.budget import Budget, describe_cost
from ..resizing import channel_axes
from ..shape import Shape
from ..slimming.slim import slim
from ..slimming.sort_channels import importance
from ..task import Objective
from ..tracing.channel_groups import ChannelGroups
from ..tracing.layouts import kept_channels
from ..tracing.space import Space
from ..training.train import preserve_random_state
from ._calibration import CalibratedEvaluator
from ._channel_choice import Scores, Widths, drop_single_channels, keep_by_ratio, most_important
from .interface import Context, MethodResult

__all__ = ["autoslim", "narrow_greedily", "sandwich", "slim_forward"]

RANDOM = 2  # random networks per step
JUDGED = 500  # held-out images that a network is evaluated on, at most
RECALIBRATED = 256  # training images that its batch norms are recalibrated on before, at most
FEWEST = 16  # of both
MARGIN = 1.25  # more networks may be evaluated than was expected
GROUPS_PER_STEP = 12  # one is narrowed for each dozen groups before all are evaluated again

Score = Callable[[Shape], tuple[float, float]]
"""Returns the score and the loss of the network of a shape."""


def autoslim(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    scores = importance(model, space, groups.mean)
    keep_by_ratio(groups, budget, scores)  # refuses an impossible budget before the training
    network, epochs = copy.deepcopy(model), context.searching.epochs
    (calibration, held_out), judging = _plan_judging(groups, budget, scores, context)
    # the largest, the smallest and the random networks learn at each step
    trained = max(epochs / 2, epochs - judging) / (2 + RANDOM)
    objective = sandwich(network, groups, scores, context)
    context.shortened(trained).train(network, objective=objective)
    evaluator = CalibratedEvaluator(context, calibration=calibration, held_out=held_out)

    def score(shape: Shape) -> tuple[float, float]:
        if evaluator.passes >= judging:  # more networks than expected
            return _least_share(shape, space), 0.0
        found = evaluator.evaluate(slim(network, space, shape))
        return found[context.dataset.task.scores[0]], found["loss"]

    with preserve_random_state(context.session.fabric):
        for steps, shape in enumerate(narrow_greedily(groups, budget, scores, score)):
            cost = budget.cost(space, shape)
            context.session.progress.note(
                f"narrowed {steps} times: {describe_cost(budget.metric, cost)}"
            )
        shape = drop_single_channels(groups, budget, scores, shape)
        small = evaluator.recalibrate(slim(network, space, shape)).train(model.training)
    notes = {"steps": steps, "judged_by": len(evaluator.held_out)}
    return MethodResult(
        shape=shape,
        model=small,
        cost=budget.cost(space, shape),
        notes=notes,
        passes=(2 + RANDOM) * trained + evaluator.passes,
    )


def _plan_judging(
    groups: ChannelGroups, budget: Budget, scores: Scores, context: Context
) -> tuple[tuple[int, int], float]:
    """How many images a network is recalibrated and evaluated on, so that this takes half of the
    passes of a search at most, and the passes that it may take."""
    judged = 0

    def narrow_evenly(shape: Shape) -> tuple[float, float]:
        nonlocal judged
        judged += 1
        return _least_share(shape, groups.space), 0.0

    for _ in narrow_greedily(groups, budget, scores, narrow_evenly):
        pass
    dataset = context.dataset
    most = min(RECALIBRATED, len(dataset.train)), min(JUDGED, len(dataset.validation))
    passes = context.forward_passes(MARGIN * judged * sum(most))
    share = min(1.0, context.searching.epochs / 2 / max(passes, 1e-9))
    calibration, held_out = (max(FEWEST, int(share * images)) for images in most)
    return (calibration, held_out), share * passes


def _least_share(shape: Shape, space: Space) -> float:
    """The smallest share of its channels that a layer keeps."""
    return min(width / space.full.widths[name] for name, width in shape.widths.items())


def sandwich(
    model: nn.Module, groups: ChannelGroups, scores: Scores, context: Context
) -> Objective:
    """The objective of the sandwich rule; all networks share the parameters of `model`."""
    task = context.dataset.task
    plain = task.objective(context.searching.label_smoothing)
    candidates = {
        head: [width for width in groups.candidates[head] if width <= size] or [size]
        for head, size in groups.sizes.items()
    }
    shape_of = partial(most_important, groups, scores)
    smallest = shape_of({head: widths[0] for head, widths in candidates.items()})

    def draw() -> Shape:
        return shape_of(
            {head: each[int(torch.randint(len(each), ()))] for head, each in candidates.items()}
        )

    def objective(network: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        outcome = plain(network, x, y)
        answers = outcome["outputs"].detach().float()
        losses = [outcome["loss"]]
        for shape in (smallest, *(draw() for _ in range(RANDOM))):
            with context.session.fabric.autocast():
                outputs = slim_forward(model, groups.space, shape, outcome["inputs"])
            zero, mixture = torch.zeros_like(outcome["loss"]), {"weight": 0.0, "temperature": 1.0}
            losses.append(
                task.distillation_loss(
                    zero, outputs.float(), answers, (x, y), kd="paper", **mixture
                )
            )
        return {**outcome, "loss": torch.stack(losses).mean()}

    return objective


def slim_forward(model: nn.Module, space: Space, shape: Shape, x: Tensor) -> Tensor:
    """The outputs of the network of a shape, computed with slices of the parameters of `model`.

    Projections of shortcuts, which only the small network has, are as `slim` initialises them.
    """
    template = slim(model, space, shape)
    whole = _sliced_parameters(model, space, shape)
    parts = {name: whole[name] for name, _ in template.named_parameters() if name in whole}
    outputs: Tensor = torch.func.functional_call(template, parts, (x,))
    return outputs


def _sliced_parameters(model: nn.Module, space: Space, shape: Shape) -> dict[str, Tensor]:
    """Every parameter, sliced to the channels that the shape keeps."""
    masks = space.masks(shape)
    parts: dict[str, Tensor] = dict(model.named_parameters())
    for layer in space.layers:
        if layer.kind == "constant":
            continue
        outs, ins = (
            _index(kept_channels(space.layouts, masks, i)) for i in (layer.outputs, layer.inputs)
        )
        for own_name, axes in channel_axes(model.get_submodule(layer.name), layer.kind).items():
            name = f"{layer.name}.{own_name}"
            for axis, channels in zip(axes, (outs, ins), strict=True):
                if axis is not None and name in parts:
                    parts[name] = parts[name][(slice(None),) * axis + (channels,)]
    return parts


def _index(channels: list[int]) -> slice | Tensor:
    # a slice is a view, without a copy
    leading = channels == list(range(len(channels)))
    return slice(len(channels)) if leading else torch.tensor(channels)


def narrow_greedily(
    groups: ChannelGroups, budget: Budget, scores: Scores, score: Score
) -> Iterator[Shape]:
    """The shapes from the full network down to the target, each narrower by a step.

    The step that leaves the best score is taken, and among equals the lowest loss. No step goes
    below the band; where none is left, the shapes end.
    """
    widths: Widths = groups.sizes
    shape_of = partial(most_important, groups, scores)

    def cost(widths: Widths) -> int:
        return budget.cost(groups.space, shape_of(widths))

    def harm(step: Widths) -> tuple[float, float]:
        value, loss = score(shape_of({**widths, **step}))
        return -value, loss

    yield shape_of(widths)
    while cost(widths) > budget.value:
        steps = sorted(_steps(groups, budget, widths, cost), key=harm)
        if not steps:
            return
        for step in steps[: ceil(len(groups.sizes) / GROUPS_PER_STEP)]:
            narrower = {**widths, **step}
            if cost(widths) > budget.value and cost(narrower) >= budget.low:
                widths = narrower
                yield shape_of(widths)


def _steps(
    groups: ChannelGroups, budget: Budget, widths: Widths, cost: Callable[[Widths], int]
) -> list[Widths]:
    """Each group to its next candidate; or, if all these go below the band, as far as the target.

    Below the smallest candidate a step is a tenth of the group.
    """

    def allowed(steps: list[Widths]) -> list[Widths]:
        return [step for step in steps if cost({**widths, **step}) >= budget.low]

    def nearest(head: str, low: int) -> Widths:
        between = range(low, widths[head])
        place = bisect(between, budget.value, key=lambda width: cost({**widths, head: width}))
        beside = [{head: width} for width in between[max(0, place - 1) : place + 1]]
        return min(beside, key=lambda step: abs(cost({**widths, **step}) - budget.value))

    whole: dict[str, int] = {}
    for head, width in widths.items():
        least = max(1, width - max(1, groups.sizes[head] // 10))
        low = max((c for c in groups.candidates[head] if c < width), default=least)
        if low < width:
            whole[head] = low
    return allowed([{head: low} for head, low in whole.items()]) or allowed(
        [nearest(head, low) for head, low in whole.items()]
    )
