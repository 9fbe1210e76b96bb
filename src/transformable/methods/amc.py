"""AMC: AutoML for Model Compression and Acceleration on Mobile Devices. He et al. ECCV 2018.

An agent that learns by reinforcement (DDPG) goes through the network, layer by layer, and says what
share of its channels each keeps; its reward is the accuracy of the pruned network, as it is, on
validation images. An action is bounded so that the rest of the network can still bring the cost to
the budget. The best episode counts.

Layers that are added to each other lose the same channels and have one action together. The paper
bounds the cost from above; here it has to be inside a band, so actions are bounded from below as
well. Before a pruned network is judged, its batch norms are calibrated again on training images,
because without that its accuracy is often that of chance, and a reward says nothing; the authors'
code reconstructs the weights by least squares instead. Their 400 episodes are 60 here, and the
cost that the agent sees is in the metric of the budget.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..costing.cost import layer_cost
from ..runs.progress import Progress
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing import Layer
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ..training.evaluate import evaluate
from ..training.train import own_randomness
from ._calibration import recalibrate, some
from ._channel_choice import Scores, by_ratio, loosened, strongest
from ._ddpg import Agent
from .interface import Context, MethodResult
from .pfec import l1

__all__ = ["amc"]

EPISODES = 60
WARMUP = 20
"""Episodes of random actions, at first."""
UPDATES = 30
"""Of the agent, after each later episode."""
NOISE, DECAY = 0.5, 0.95
LOWEST = 0.2
"""Share of its channels that a layer keeps at least, unless the budget is small."""
IMAGES = 1000
"""For a reward."""
CALIBRATION = 512
"""Training images for the batch norms."""
BATCH = 64

Widths = Mapping[str, int]
Episode = tuple[float, dict[str, int]]
"""A reward, and the widths that got it."""


def amc(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Search for the shares of channels, and keep in each layer the filters of largest L1 norm."""
    groups = ChannelGroups(space)
    course = Course(groups, budget, l1(model, groups))
    seen = some(context.dataset.train, CALIBRATION, context.session.seed)
    judges = some(context.dataset.validation, IMAGES, context.session.seed)

    def pruned(widths: Widths) -> nn.Module:
        batches = (x for x, _ in seen.shuffled(BATCH, seed=context.session.seed, epoch=0))
        return recalibrate(
            slim(model, space, course.inside(widths)), batches, context.session.fabric
        )

    def reward(widths: Widths) -> float:
        return evaluate(pruned(widths), judges, fabric=context.session.fabric)["accuracy"]

    with own_randomness(context.session.fabric):
        states = embedding(model, groups, budget)
        episodes = search(course, states, reward, context.session.seed, context.session.progress)
        accuracy, widths = max(episodes, key=lambda episode: episode[0])
        small, shape = pruned(widths).train(model.training), course.inside(widths)
    notes = {"episodes": len(episodes), "accuracy": accuracy, "judged_by": len(judges)}
    return MethodResult(shape=shape, model=small, cost=budget.cost(space, shape), notes=notes)


class Course:
    """What an episode goes through: groups that get a width each, so that the budget holds."""

    def __init__(self, groups: ChannelGroups, budget: Budget, scores: Scores) -> None:
        self.groups, self.budget, self.scores = groups, budget, scores
        self.largest = groups.sizes
        share = LOWEST
        self.smallest = self._share(share)
        # there has to be something to choose at a small budget, too
        while self.cost(self.smallest) > budget.value / 2 and max(self.smallest.values()) > 1:
            share /= 2
            self.smallest = self._share(share)

    def _share(self, share: float) -> dict[str, int]:
        return {head: max(1, round(share * size)) for head, size in self.largest.items()}

    def shape(self, widths: Widths) -> Shape:
        return strongest(self.groups, self.scores, widths)

    def cost(self, widths: Widths) -> int:
        return self.budget.cost(self.groups.space, self.shape(widths))

    def inside(self, widths: Widths) -> Shape:
        """The shape of an episode, which is inside the band."""
        return loosened(self.groups, self.budget, self.scores, self.shape(widths))

    def bounds(self, decided: Widths) -> tuple[int, int]:
        """The widths of the next group with which the later ones can still keep the budget.

        With them at their largest, the cost must reach the band; at their smallest, not pass it.
        """
        head = list(self.largest)[len(decided)]
        widths = range(self.smallest[head], self.largest[head] + 1)

        def least(width: int) -> int:
            return self.cost({**self.smallest, **decided, head: width})

        def most(width: int) -> int:
            return self.cost({**self.largest, **decided, head: width})

        low = bisect_left(widths, self.budget.low, key=most)
        high = bisect_right(widths, self.budget.high, key=least) - 1
        # where channels are costly and the band is narrow, there may be none between
        high = max(high, 0)
        return widths[min(low, high)], widths[high]

    def settle(self, widths: Widths) -> dict[str, int]:
        """Inside the band, a channel at a time; the same share everywhere where that fails."""

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
                even = by_ratio(self.groups, self.budget, self.scores)
                return {head: len(each) for head, each in self.groups.kept(even).items()}
            widths = nearest
        return dict(widths)


def search(
    course: Course,
    states: Tensor,
    reward: Callable[[Widths], float],
    seed: int,
    progress: Progress,
) -> list[Episode]:
    """All episodes, in order; ``states`` say what does not change of each group's state."""
    agent = Agent(states.shape[1] + 2, seed)
    episodes: list[Episode] = []
    progress.start("episodes", EPISODES, 0)
    for number in range(EPISODES):
        noise = NOISE * DECAY ** (number - WARMUP)
        act = agent.guess if number < WARMUP else partial(agent.act, noise=noise)
        seen, actions, widths = walk(course, states, act)
        episodes.append((reward(widths), widths))
        agent.remember(seen, actions, episodes[-1][0])
        if number + 1 >= WARMUP:
            agent.learn(UPDATES)
        progress.advance(number + 1)
        progress.note(f"best accuracy {max(reward for reward, _ in episodes):.1%}")
    return episodes


def walk(
    course: Course, states: Tensor, act: Callable[[Tensor], float]
) -> tuple[list[Tensor], list[float], dict[str, int]]:
    """One way through the network: the states, what was done in them, and the widths it gave."""
    seen: list[Tensor] = []
    widths: dict[str, int] = {}
    full, last = course.cost(course.largest), 1.0
    for (head, size), state in zip(course.largest.items(), states, strict=True):
        reduced = 1 - course.cost({**course.largest, **widths}) / full
        seen.append(torch.cat([state, torch.tensor([reduced, last])]))
        low, high = course.bounds(widths)
        widths[head] = min(max(round(act(seen[-1]) * size), low), high)
        last = widths[head] / size
    widths = course.settle(widths)
    return seen, [widths[head] / size for head, size in course.largest.items()], widths


def embedding(model: nn.Module, groups: ChannelGroups, budget: Budget) -> Tensor:
    """A row for each group, from 0 to 1: its number, outputs, inputs, height, width, stride and
    kernel (of its first layer), its cost, and that of the groups after it."""
    layouts = groups.space.layouts
    first: dict[str, Layer] = {}
    costs = dict.fromkeys(groups.sizes, 0)
    for head, layer in groups.makers():
        first.setdefault(head, layer)
        size = layouts[layer.inputs].size, layouts[layer.outputs].size
        costs[head] += getattr(layer_cost(layer, *size), budget.metric)
    rows = []
    for number, head in enumerate(groups.sizes):
        layer = first[head]
        stride = getattr(model.get_submodule(layer.name), "stride", (1,))[0]
        size = layouts[layer.outputs].size, layouts[layer.inputs].size
        rest = sum(list(costs.values())[number + 1 :])
        rows.append((number, *size, *layer.size, stride, layer.kernel[0], costs[head], rest))
    table = torch.tensor(rows, dtype=torch.float64)
    return (table / table.amax(0).clamp(min=1)).float()
