"""Continuous Control with Deep Reinforcement Learning (DDPG). Lillicrap et al. ICLR 2016.

As AMC uses it: an action is one number from 0 to 1, exploration draws it from a truncated normal
distribution around the actor's, every step of an episode has the reward of its end, minus a moving
average of the rewards, and nothing is discounted.
"""

import copy
from collections import deque
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["Agent"]

HIDDEN = 300
MEMORY = 2000
BATCH = 64
ACTOR_RATE, CRITIC_RATE = 1e-4, 1e-3
FOLLOW = 0.01  # rate at which the target networks follow, per update
AVERAGE = 0.05  # rate of the moving average of rewards


class Agent:
    """An actor that chooses the action in a state, and a critic that estimates its value."""

    def __init__(self, features: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.actor = nn.Sequential(_perceptron(features), nn.Sigmoid())
            self.critic = _perceptron(features + 1)
        self.targets = copy.deepcopy((self.actor, self.critic))
        self.optimizers = (
            torch.optim.Adam(self.actor.parameters(), lr=ACTOR_RATE),
            torch.optim.Adam(self.critic.parameters(), lr=CRITIC_RATE),
        )
        # state, action, reward, next state, and 1 if there is a next state
        self.memory: deque[tuple[Tensor, Tensor, Tensor, Tensor, Tensor]] = deque(maxlen=MEMORY)
        self.baseline: float | None = None

    def guess(self, state: Tensor) -> float:
        """A uniformly random action."""
        return float(torch.rand((), generator=self.generator))

    def act(self, state: Tensor, noise: float) -> float:
        """The actor's action plus truncated normal noise of this deviation, from 0 to 1."""
        with torch.no_grad():
            mean = self.actor(state).double().squeeze()
        if noise == 0:
            return float(mean)
        low, high = (torch.special.ndtr((end - mean) / noise) for end in (0, 1))
        part = low + (high - low) * self.guess(state)
        return float((mean + noise * torch.special.ndtri(part)).clamp(0, 1))

    def remember(self, states: Sequence[Tensor], actions: Sequence[float], reward: float) -> None:
        """Store an episode in the replay memory."""
        for i, (state, action) in enumerate(zip(states, actions, strict=True)):
            more = i + 1 < len(states)
            following = states[i + 1] if more else torch.zeros_like(state)
            action_, reward_, more_ = (torch.tensor([float(n)]) for n in (action, reward, more))
            self.memory.append((state, action_, reward_, following, more_))

    def learn(self, updates: int) -> None:
        """Update both networks on batches of the replay memory."""
        for _ in range(updates):
            chosen = torch.randint(len(self.memory), (BATCH,), generator=self.generator)
            batch = [self.memory[i] for i in chosen.tolist()]
            state, action, reward, following, more = map(torch.stack, zip(*batch, strict=True))
            self._update(state, action, reward - self._moving_average(reward), following, more)

    def _moving_average(self, reward: Tensor) -> float:
        now = float(reward.mean())
        old = now if self.baseline is None else self.baseline
        self.baseline = old + AVERAGE * (now - old)
        return self.baseline

    def _update(
        self, state: Tensor, action: Tensor, reward: Tensor, following: Tensor, more: Tensor
    ) -> None:
        actor, critic = self.targets
        with torch.no_grad():
            later = critic(torch.cat([following, actor(following)], 1))
            value = reward + more * later
        actor_optimizer, critic_optimizer = self.optimizers
        critic_optimizer.zero_grad()
        F.mse_loss(self.critic(torch.cat([state, action], 1)), value).backward()  # type: ignore[no-untyped-call]
        critic_optimizer.step()
        actor_optimizer.zero_grad()
        (-self.critic(torch.cat([state, self.actor(state)], 1)).mean()).backward()
        actor_optimizer.step()
        with torch.no_grad():
            for target, network in zip(self.targets, (self.actor, self.critic), strict=True):
                for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
                    slow.lerp_(fast, FOLLOW)


def _perceptron(features: int) -> nn.Sequential:
    last = nn.Linear(HIDDEN, 1)
    # at first every action is about 0.5, and every value about 0
    nn.init.uniform_(last.weight, -3e-3, 3e-3)
    nn.init.zeros_(last.bias)
    return nn.Sequential(
        nn.Linear(features, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), last
    )
