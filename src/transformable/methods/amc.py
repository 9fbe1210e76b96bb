"""AMC: AutoML for Model Compression and Acceleration on Mobile Devices. He et al. ECCV 2018.

A reinforcement learning agent (DDPG) goes through the network layer by layer and chooses the share
of channels that each keeps; its reward is the accuracy of the pruned network, without training, on
validation images. Actions are bounded so that the remaining layers can still meet the budget. The
result is the best episode.

Differences from the paper: layers that are added to each other lose the same channels and share one
action. Actions are bounded from below as well, since the cost has to be inside a band. Before a
pruned network is evaluated, its batch norms are recalibrated on training images, because otherwise
its accuracy is often that of chance; the authors' code reconstructs the weights by least squares
instead. There are 60 episodes, not 400, and the cost that the agent sees is in the metric of the
budget.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..runs.progress import Progress
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.reader import Layer
from ..tracing.space import Space
from ..training.train import preserve_random_state
from ._calibration import CalibratedEvaluator
from ._channel_choice import Scores, Widths, drop_single_channels, keep_by_ratio, most_important
from ._criteria import filter_norms
from ._ddpg import Agent
from .interface import Context, MethodResult

__all__ = ["amc"]

EPISODES = 60
WARMUP = 20  # episodes of random actions at the beginning
UPDATES = 30  # updates of the agent after each later episode
NOISE, DECAY = 0.5, 0.95  # deviation of the exploration after the warm-up, its decay per episode
LOWEST = 0.2  # smallest share of its channels that a layer keeps, unless the budget is small
IMAGES = 1000  # held-out images for a reward
CALIBRATION = 512  # training images for the batch norms

Episode = tuple[float, dict[str, int]]  # a reward and its widths


def amc(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    environment = Environment(groups, budget, filter_norms(model, groups, p=1))
    evaluator = CalibratedEvaluator(context, calibration=CALIBRATION, held_out=IMAGES)
    session, score = context.session, context.dataset.task.scores[0]

    def reward(widths: Widths) -> float:
        pruned = slim(model, space, environment.shape_in_band(widths))
        return evaluator.evaluate(pruned)[score]

    with preserve_random_state(session.fabric):
        states = embedding(model, groups, budget)
        episodes = run_episodes(environment, states, reward, session.seed, session.progress)
        best, widths = max(episodes, key=lambda episode: episode[0])
        shape = environment.shape_in_band(widths)
        small = evaluator.recalibrate(slim(model, space, shape)).train(model.training)
    notes = {"episodes": len(episodes), score: best, "judged_by": len(evaluator.held_out)}
    cost, passes = budget.cost(space, shape), evaluator.passes
    return MethodResult(shape=shape, model=small, cost=cost, notes=notes, passes=passes)


class Environment:
    """The groups, in order, whose widths an episode chooses, and the budget that they must meet."""

    def __init__(self, groups: ChannelGroups, budget: Budget, scores: Scores) -> None:
        self.groups, self.budget, self.scores = groups, budget, scores
        self.largest = groups.sizes
        share = LOWEST
        self.smallest = self._share(share)
        # a small budget must leave something to choose as well
        while self.cost(self.smallest) > budget.value / 2 and max(self.smallest.values()) > 1:
            share /= 2
            self.smallest = self._share(share)

    def _share(self, share: float) -> dict[str, int]:
        return {head: max(1, round(share * size)) for head, size in self.largest.items()}

    def shape(self, widths: Widths) -> Shape:
        return most_important(self.groups, self.scores, widths)

    def cost(self, widths: Widths) -> int:
        return self.budget.cost(self.groups.space, self.shape(widths))

    def shape_in_band(self, widths: Widths) -> Shape:
        """The shape of the widths of an episode, inside the band."""
        return drop_single_channels(self.groups, self.budget, self.scores, self.shape(widths))

    def bounds(self, decided: Widths) -> tuple[int, int]:
        """The smallest and largest width of the next group with which the budget can be met.

        The cost must reach the band with the later groups at their largest, and not pass it with
        them at their smallest.
        """
        head = list(self.largest)[len(decided)]
        widths = range(self.smallest[head], self.largest[head] + 1)

        def cost(later: Widths, width: int) -> int:
            return self.cost({**later, **decided, head: width})

        low = bisect_left(widths, self.budget.low, key=partial(cost, self.largest))
        high = bisect_right(widths, self.budget.high, key=partial(cost, self.smallest)) - 1
        # if channels are costly and the band is narrow, there may be none
        high = max(high, 0)
        return widths[min(low, high)], widths[high]

    def move_into_band(self, widths: Widths) -> dict[str, int]:
        """Change widths by single channels until the budget holds; if that fails, use one ratio."""

        def off(widths: Widths) -> float:
            return abs(self.cost(widths) - self.budget.value)

        while not self.budget.holds(cost := self.cost(widths)):
            step = 1 if cost < self.budget.value else -1
            moved = [
                {**widths, head: width + step}
                for head, width in widths.items()
                if 1 <= width + step <= self.largest[head]
            ]
            nearest = min(moved, key=off, default=widths)
            if off(nearest) >= off(widths):
                even = keep_by_ratio(self.groups, self.budget, self.scores)
                return {head: len(each) for head, each in self.groups.kept(even).items()}
            widths = nearest
        return dict(widths)


def run_episodes(
    environment: Environment,
    states: Tensor,
    reward: Callable[[Widths], float],
    seed: int,
    progress: Progress,
) -> list[Episode]:
    """All episodes, in order; ``states`` is the constant part of each group's state."""
    agent = Agent(states.shape[1] + 2, seed)
    episodes: list[Episode] = []
    progress.start("episodes", EPISODES, 0)
    for number in range(EPISODES):
        noise = NOISE * DECAY ** (number - WARMUP)
        act = agent.guess if number < WARMUP else partial(agent.act, noise=noise)
        seen, actions, widths = run_episode(environment, states, act)
        episodes.append((reward(widths), widths))
        agent.remember(seen, actions, episodes[-1][0])
        if number + 1 >= WARMUP:
            agent.learn(UPDATES)
        progress.advance(number + 1)
        progress.note(f"best reward {max(reward for reward, _ in episodes):.4g}")
    return episodes


def run_episode(
    environment: Environment, states: Tensor, act: Callable[[Tensor], float]
) -> tuple[list[Tensor], list[float], dict[str, int]]:
    """One pass over the groups: the states, the actions taken in them, and the widths."""
    seen: list[Tensor] = []
    widths: dict[str, int] = {}
    full, last = environment.cost(environment.largest), 1.0
    for (head, size), state in zip(environment.largest.items(), states, strict=True):
        reduced = 1 - environment.cost({**environment.largest, **widths}) / full
        seen.append(torch.cat([state, torch.tensor([reduced, last])]))
        low, high = environment.bounds(widths)
        widths[head] = min(max(round(act(seen[-1]) * size), low), high)
        last = widths[head] / size
    widths = environment.move_into_band(widths)
    return seen, [widths[head] / size for head, size in environment.largest.items()], widths


def embedding(model: nn.Module, groups: ChannelGroups, budget: Budget) -> Tensor:
    """The constant part of the states, a row for each group, scaled to 0..1: its index, outputs,
    inputs, height, width, stride and kernel (of its first layer), its cost, and the cost of the
    groups after it."""
    layouts = groups.space.layouts
    first: dict[str, Layer] = {}
    costs = dict.fromkeys(groups.sizes, 0.0)
    by_layer = budget.by_layer(groups.space)
    for layer in groups.makers():
        for head in {channel[0] for channel in groups.channels[layer.outputs] if channel}:
            first.setdefault(head, layer)
            costs[head] += by_layer[layer.name]
    rows = []
    for number, head in enumerate(groups.sizes):
        layer = first[head]
        stride = getattr(model.get_submodule(layer.name), "stride", (1,))[0]
        size = layouts[layer.outputs].size, layouts[layer.inputs].size
        rest = sum(list(costs.values())[number + 1 :])
        pixels = (1, *layer.size)[-2:]
        rows.append((number, *size, *pixels, stride, layer.kernel[0], costs[head], rest))
    table = torch.tensor(rows, dtype=torch.float64)
    return (table / table.amax(0).clamp(min=1)).float()
