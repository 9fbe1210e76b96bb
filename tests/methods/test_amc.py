"""AMC: bounded actions, what the agent sees and learns, whole networks."""

import copy
import itertools
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from scipy.stats import truncnorm
from torch import Tensor, nn

import transformable as tas
from support.counted_costs import counted_macs, counted_params
from support.networks import AND_MOBILENET, randomise
from support.searches import alternating_search
from transformable.costing.budget import Budget
from transformable.data import from_tensors
from transformable.methods import _ddpg as ddpg
from transformable.methods import amc as module
from transformable.methods._criteria import filter_norms
from transformable.methods._ddpg import Agent
from transformable.methods.amc import (
    Environment,
    Episode,
    amc,
    embedding,
    run_episode,
    run_episodes,
)
from transformable.methods.interface import Context
from transformable.runs.progress import Progress
from transformable.settings import Metric, Residual
from transformable.tracing.channel_groups import ChannelGroups
from transformable.tracing.space import Space
from transformable.training.evaluate import evaluate
from transformable.training.session import Session


def context(seed: int = 0, count: int = 40) -> Context:
    generator = torch.Generator().manual_seed(1)
    images = torch.rand(count, 3, 16, 16, generator=generator)
    labels = torch.arange(count) % 10
    dataset = from_tensors((images, labels), (images, labels), validation=0.5)
    return Context(
        dataset=dataset, searching=alternating_search(epochs=1), session=Session(seed=seed)
    )


def network(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    torch.manual_seed(0)
    make: Callable[[], nn.Module]
    make, input_shape = AND_MOBILENET.get(name, (partial(tas.models.build, name), (3, 16, 16)))
    return randomise(make()), input_shape


def chain() -> tuple[nn.Module, Space]:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10), nn.ReLU(), nn.Linear(10, 4),
    )  # fmt: skip
    return model, Space.trace(model, (3, 9, 9))


def environment(model: nn.Module, space: Space, budget: Budget) -> Environment:
    groups = ChannelGroups(space)
    return Environment(groups, budget, filter_norms(model, groups, p=1))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer episodes, and an agent that learns less."""
    for name, value in {"EPISODES": 6, "WARMUP": 3, "UPDATES": 2}.items():
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(ddpg, "HIDDEN", 32)


@pytest.mark.parametrize(("metric", "share"), [("macs", 0.5), ("macs", 0.3), ("params", 0.6)])
def test_bounds_are_the_widths_from_which_the_budget_can_be_kept(
    metric: Metric, share: float
) -> None:
    """Against every shape there is."""
    model, space = chain()
    way = environment(model, space, Budget.of(share, space, metric=metric, tolerance=0.1))
    ranges = [range(way.smallest[head], way.largest[head] + 1) for head in way.largest]
    assert [len(each) > 4 for each in ranges] == [True] * 3
    good = [
        widths
        for widths in itertools.product(*ranges)
        if way.budget.holds(way.cost(dict(zip(way.largest, widths, strict=True))))
    ]
    assert 0 < len(good) < len(list(itertools.product(*ranges))) / 2
    starts = {widths[:length] for widths in good for length in range(3)}
    for start in starts:
        allowed = {widths[len(start)] for widths in good if widths[: len(start)] == start}
        low, high = way.bounds(dict(zip(way.largest, start, strict=False)))
        assert set(range(low, high + 1)) == allowed, start


def test_an_action_is_brought_into_its_bounds() -> None:
    model, space = chain()
    way = environment(model, space, Budget.of(0.5, space))
    states = torch.zeros(3, 9)
    for action in (0.0, 1.0):
        widths: dict[str, int] = {}
        for head in way.largest:
            widths[head] = way.bounds(widths)[int(action)]
        seen, actions, found = run_episode(way, states, partial(lambda action, _: action, action))
        assert found == widths
        assert actions == [widths[head] / size for head, size in way.largest.items()]
        # how much less it costs by then, and the action before
        decided = dict(itertools.islice(widths.items(), 2))
        reduced = 1 - way.cost({**way.largest, **decided}) / way.cost(way.largest)
        assert seen[0][-2:].tolist() == [0, 1]
        assert seen[2][-2:].tolist() == pytest.approx([reduced, actions[1]])


def test_what_the_agent_sees() -> None:
    model, space = chain()
    macs = [3 * 12 * 9 * 81, 12 * 16 * 9 * 16, (16 + 1) * 10]
    rest = [macs[1] + macs[2], macs[2], 0]
    expected = [
        # number, outputs, inputs, height, width, stride, kernel
        [0 / 2, 12 / 16, 3 / 16, 9 / 9, 9 / 9, 1 / 2, 3 / 3, macs[0] / macs[1], rest[0] / rest[0]],
        [1 / 2, 16 / 16, 12 / 16, 4 / 9, 4 / 9, 2 / 2, 3 / 3, macs[1] / macs[1], rest[1] / rest[0]],
        [2 / 2, 10 / 16, 16 / 16, 1 / 9, 1 / 9, 1 / 2, 1 / 3, macs[2] / macs[1], rest[2] / rest[0]],
    ]
    found = embedding(model, ChannelGroups(space), Budget.of(0.5, space))
    assert torch.allclose(found, torch.tensor(expected))
    params = embedding(model, ChannelGroups(space), Budget.of(0.5, space, metric="params"))
    assert params[:, 7].tolist() == pytest.approx([336 / 1744, 1.0, 170 / 1744])


def test_settling_moves_a_channel_at_a_time() -> None:
    model, space = chain()
    inside = dict(zip(space.full.widths, (7, 11, 5), strict=True))
    amount = tas.macs(space, tas.Shape(inside))
    way = environment(model, space, Budget.of(amount, space, tolerance=0.02))
    assert way.move_into_band(inside) == inside
    for head in list(inside)[:2]:
        for step in (-1, 1):
            off = {**inside, head: inside[head] + step}
            assert not way.budget.holds(way.cost(off))
            assert way.move_into_band(off) == inside
    for widths in (way.smallest, dict(way.largest)):
        assert way.budget.holds(way.cost(way.move_into_band(widths)))


def test_what_cannot_be_settled_has_the_same_share_everywhere() -> None:
    model, space = chain()
    inside = dict(zip(space.full.widths, (6, 8, 5), strict=True))
    amount = tas.macs(space, tas.Shape(inside))
    way = environment(model, space, Budget.of(amount, space, tolerance=0.001))
    # single steps from here end beside the band
    stuck = dict(zip(space.full.widths, (12, 2, 10), strict=True))
    assert way.move_into_band(stuck) == inside


def test_a_small_budget_leaves_something_to_choose() -> None:
    model, input_shape = network("resnet20")
    space = Space.trace(model, input_shape)
    large, small = (environment(model, space, Budget.of(share, space)) for share in (0.5, 0.05))
    assert large.smallest["stages.2.0.conv1"] == round(0.2 * 64)
    assert small.cost(small.smallest) <= small.budget.value / 2
    low, high = small.bounds({})
    assert high - low > 3


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "metric", "share", "tolerance"),
    [
        ("resnet20", "macs", 0.5, 0.05),
        ("resnet20", "params", 0.1, 0.01),
        ("padded resnet", "macs", 0.2, 0.01),
        ("vgg", "params", 0.9, 0.01),
        ("branches", "macs", 0.3, 0.05),
    ],
)
def test_every_episode_is_inside_the_band(
    name: str, metric: Metric, share: float, tolerance: float
) -> None:
    model, input_shape = network(name)
    space = Space.trace(model, input_shape)
    budget = Budget.of(share, space, metric=metric, tolerance=tolerance)
    way = environment(model, space, budget)
    states = embedding(model, way.groups, budget)
    episodes = run_episodes(way, states, lambda widths: sum(widths.values()), 0, Progress())
    assert len(episodes) == 6
    for _, widths in episodes:
        assert budget.holds(budget.cost(space, way.shape(widths)))
    assert len({tuple(widths.values()) for _, widths in episodes}) > 1


def learnt(seed: int, reward: Callable[[list[float]], float], steps: int) -> list[list[float]]:
    """The actions of all episodes."""
    agent = Agent(2, seed)
    episodes = []
    for number in range(module.EPISODES):
        states, actions = [], [0.0]
        for step in range(steps):
            states.append(torch.tensor([step / steps, actions[-1]]))
            noise = module.NOISE * module.DECAY ** (number - module.WARMUP)
            known = number >= module.WARMUP
            actions.append(agent.act(states[-1], noise) if known else agent.guess(states[-1]))
        agent.remember(states, actions[1:], reward(actions[1:]))
        if number + 1 >= module.WARMUP:
            agent.learn(module.UPDATES)
        episodes.append(actions[1:])
    return [*episodes, [agent.act(torch.tensor([0.0, 0.0]), 0)]]


def test_the_agent_learns_what_is_rewarded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddpg, "HIDDEN", 100)
    *episodes, [last] = learnt(0, lambda actions: -abs(actions[0] - 0.7), 1)
    off = [abs(action - 0.7) for [action] in episodes]
    assert sum(off[-10:]) / 10 < 0.5 * sum(off[:20]) / 20
    assert last == pytest.approx(0.7, abs=0.1)


def test_the_agent_learns_what_only_shows_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ddpg, "HIDDEN", 100)
    wanted = (0.9, 0.2, 0.6)

    def reward(actions: list[float]) -> float:
        return -sum(abs(a - b) for a, b in zip(actions, wanted, strict=True))

    *episodes, _ = learnt(0, reward, 3)
    rewards = [reward(actions) for actions in episodes]
    assert sum(rewards[-10:]) / 10 > 0.6 * sum(rewards[:20]) / 20


def test_an_update_is_a_step_of_ddpg() -> None:
    """Against the formulas, with plain gradient descent."""
    agent = Agent(2, seed=0)
    for network in agent.targets:
        for parameter in network.parameters():
            parameter.data += 0.01
    old_actor, old_critic = copy.deepcopy((agent.actor, agent.critic))
    target_actor, target_critic = copy.deepcopy(agent.targets)
    agent.optimizers = tuple(  # type: ignore[assignment]
        torch.optim.SGD(network.parameters(), lr=0.1) for network in (agent.actor, agent.critic)
    )
    generator = torch.Generator().manual_seed(0)
    state, following = (torch.rand(5, 2, generator=generator) for _ in range(2))
    action, reward = (torch.rand(5, 1, generator=generator) for _ in range(2))
    more = torch.tensor([[1.0], [1], [0], [1], [0]])
    agent._update(state, action, reward, following, more)

    def q(critic: nn.Module, state: Tensor, action: Tensor) -> Tensor:
        return critic(torch.cat([state, action], 1))  # type: ignore[no-any-return]

    value = reward + more * q(target_critic, following, target_actor(following)).detach()
    loss = F.mse_loss(q(old_critic, state, action), value)
    parameters = list(old_critic.parameters())
    for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 0.1 * slope
    loss = -q(old_critic, state, old_actor(state)).mean()
    parameters = list(old_actor.parameters())
    for parameter, slope in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 0.1 * slope
    for new, expected in ((agent.actor, old_actor), (agent.critic, old_critic)):
        for ours, theirs in zip(new.parameters(), expected.parameters(), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-7)
    followers = zip(
        agent.targets, (target_actor, target_critic), (old_actor, old_critic), strict=True
    )
    for target, before, goal in followers:
        for ours, slow, fast in zip(
            target.parameters(), before.parameters(), goal.parameters(), strict=True
        ):
            assert torch.allclose(ours, 0.99 * slow + 0.01 * fast, atol=1e-7)


def test_an_agent_is_decided_by_its_seed_alone() -> None:
    state = torch.ones(2)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, other = Agent(2, seed=1), Agent(2, seed=2)
    assert torch.equal(before, torch.get_rng_state())
    torch.rand(1)
    again = Agent(2, seed=1)
    assert [again.act(state, 0), again.guess(state)] == [one.act(state, 0), one.guess(state)]
    assert other.act(state, 0) != again.act(state, 0)
    assert other.guess(state) != again.guess(state)


def test_rewards_are_taken_against_their_moving_mean() -> None:
    agent = Agent(1, seed=0)
    means = [
        agent._moving_average(torch.tensor(rewards)) for rewards in ([1.0, 3.0], [4.0, 4.0], [0.0])
    ]
    assert means == pytest.approx([2.0, 2.1, 0.95 * 2.1])


def test_an_episode_is_remembered_step_by_step() -> None:
    agent = Agent(2, seed=0)
    states = [torch.tensor([0.0, 1.0]), torch.tensor([2.0, 3.0])]
    agent.remember(states, [0.25, 0.5], reward=7.0)
    (state, action, reward, following, more), (*_, last) = agent.memory
    assert torch.equal(state, states[0])
    assert torch.equal(following, states[1])
    assert [float(n) for n in (action, reward, more, last)] == [0.25, 7, 1, 0]


@pytest.mark.parametrize("noise", [0.5, 0.1])
def test_exploration_is_truncated_normal(noise: float) -> None:
    agent = Agent(1, seed=0)
    last = [m for m in agent.actor.modules() if isinstance(m, nn.Linear)][-1]
    last.bias.data.fill_(2.0)
    state = torch.zeros(1)
    mean = agent.act(state, 0)
    assert mean == pytest.approx(torch.sigmoid(torch.tensor(2.0)).item(), abs=0.01)
    drawn = torch.tensor([agent.act(state, noise) for _ in range(2000)])
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    known = truncnorm((0 - mean) / noise, (1 - mean) / noise, mean, noise)
    assert float(drawn.mean()) == pytest.approx(known.mean(), abs=4 * known.std() / 2000**0.5)
    assert float(drawn.std()) == pytest.approx(known.std(), rel=0.1)


@pytest.mark.usefixtures("quick")
def test_the_best_episode_is_what_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    model, input_shape = network("vgg")
    space = Space.trace(model, input_shape)
    episodes: list[Episode] = []

    def recorded(*args: object) -> list[Episode]:
        episodes.extend(run_episodes(*args))  # type: ignore[arg-type]
        return episodes

    monkeypatch.setattr(module, "run_episodes", recorded)
    given = context(count=200)
    budget = Budget.of(0.5, space)
    found = amc(model, space, budget, given)
    rewards = [reward for reward, _ in episodes]
    assert len(set(rewards)) > 1
    best = rewards.index(max(rewards))
    assert found.shape == environment(model, space, budget).shape(episodes[best][1])
    judged = evaluate(found.model, given.dataset.validation)
    assert found.notes == {"episodes": 6, "accuracy": judged["accuracy"], "judged_by": judged["n"]}
    assert judged["accuracy"] == max(rewards)


@pytest.mark.usefixtures("quick")
def test_the_seed_decides() -> None:
    model, input_shape = network("vgg")
    space = Space.trace(model, input_shape)
    budget = Budget.of(0.5, space)
    one, same, other = (amc(model, space, budget, context(seed)) for seed in (1, 1, 2))
    assert one.shape == same.shape
    assert one.notes == same.notes
    states = one.model.state_dict(), same.model.state_dict()
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())
    assert other.shape != one.shape


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("name", "residual", "metric", "share"),
    [
        ("resnet20", "pad", "macs", 0.5),
        ("vgg", "pad", "params", 0.5),
        ("densenet", "pad", "macs", 0.5),
        ("branches", "tied", "params", 0.5),
        ("squeeze-and-excite", "project", "macs", 0.5),
        ("pre-activation", "tied", "params", 0.3),
        ("padded resnet", "project", "params", 0.4),
        ("small mobilenet", "pad", "macs", 0.6),
    ],
)
def test_any_network_ends_inside_the_budget(
    name: str, residual: Residual, metric: Metric, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EPISODES", 2)
    monkeypatch.setattr(module, "WARMUP", 1)
    model, input_shape = network(name)
    space = Space.trace(model, input_shape, residual=residual)
    budget = Budget.of(share, space, metric=metric)
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    found = amc(model, space, budget, context())
    assert torch.equal(state, torch.get_rng_state())
    assert model.training
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert budget.holds(found.cost)
    assert found.cost == budget.cost(space, found.shape)
    assert found.model.training
    counted = counted_macs if metric == "macs" else lambda small, _: counted_params(small)
    assert found.cost == counted(found.model, input_shape)
    assert found.model(torch.rand(2, *input_shape)).isfinite().all()


@pytest.mark.usefixtures("quick")
def test_progress_counts_the_episodes() -> None:
    told: list[tuple[object, ...]] = []

    class Told(Progress):
        def start(self, what: str, total: int, done: int) -> None:
            told.append((what, total, done))

        def advance(self, done: int) -> None:
            told.append((done,))

        def note(self, text: str) -> None:
            told.append((text,))

    model, space = chain()
    way = environment(model, space, Budget.of(0.5, space))
    rewards = iter((0.1, 0.3, 0.2, 0.0, 0.0, 0.5))
    run_episodes(way, torch.zeros(3, 9), lambda _: next(rewards), 0, Told())
    assert told[:3] == [("episodes", 6, 0), (1,), ("best reward 0.1",)]
    assert told[-2:] == [(6,), ("best reward 0.5",)]


@pytest.mark.parametrize("name", ["squeeze-and-excite", "pre-activation"])
def test_a_row_is_of_its_group(name: str) -> None:
    model, input_shape = network(name)
    groups = ChannelGroups(Space.trace(model, input_shape))
    table = embedding(model, groups, Budget.of(0.5, groups.space))
    sizes = torch.tensor([float(size) for size in groups.sizes.values()])
    # the widths stand in the second column, as shares of the largest
    torch.testing.assert_close(table[:, 1], sizes / sizes.max())
    torch.testing.assert_close(table[:, 0], torch.arange(len(sizes)) / (len(sizes) - 1))
