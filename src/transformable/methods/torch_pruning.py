"""Torch-Pruning itself. DepGraph: Towards Any Structural Pruning. Fang, Ma, Song, Mi, Wang. CVPR
2023; the package torch-pruning, used as its README does.

``torch-pruning``: the L1 norm of each group of coupled channels, the same ratio in all layers but
the last, in small steps until the budget holds. ``torch-pruning-sparse``: before that, the network
is trained with the penalty of its group norm pruner, which makes weak groups weaker, and the L2
norm decides.

Differences from the README: the budget is counted as everywhere in this package, and checked after
each group of a step, not only after each step, so that the cost comes nearer to it. Layers that may
not change are not pruned.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ..costing.budget import BandError, Budget, describe_cost
from ..shape import Shape
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ..training.train import preserve_random_state
from .interface import Context, MethodResult, slimmed

__all__ = ["make_pruner", "prune_until", "torch_pruning", "torch_pruning_sparse"]

STEPS = 200  # from the whole network down to nothing
PENALTY = 5e-4  # that of Torch-Pruning's own examples on CIFAR


def torch_pruning(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    model = copy.deepcopy(model).cpu()  # where Torch-Pruning is given its example
    with preserve_random_state(context.session.fabric), _plain_errors():
        shape = _prune(model, space, budget, norm=1)
    return slimmed(model, space, budget, shape)


def torch_pruning_sparse(
    model: nn.Module, space: Space, budget: Budget, context: Context
) -> MethodResult:
    net = copy.deepcopy(model).cpu()
    with preserve_random_state(context.session.fabric):
        with _plain_errors():
            pruner = make_pruner(net, space, norm=2, sparse=True)
        with _penalised(pruner, net):
            context.train(net)
        net.cpu()
        with _plain_errors():
            shape = _prune(net, space, budget, norm=2)
    net.train(model.training)
    return slimmed(net, space, budget, shape, passes=context.searching.epochs)


def make_pruner(net: nn.Module, space: Space, *, norm: int, sparse: bool = False) -> Any:
    """A pruner of Torch-Pruning, for all layers of the network that may change."""
    try:
        import torch_pruning as tp
    except ImportError:
        raise ValueError(
            "this method needs torch-pruning; install it by pip install 'transformable[methods]'"
        ) from None
    if space.units or space.splits:
        raise ValueError(
            "Torch-Pruning cuts grouped or split channels in another way than this package; use "
            "another method"
        )
    options = {
        "example_inputs": torch.zeros(2, *space.input_shape),
        "importance": tp.importance.GroupMagnitudeImportance(p=norm),
        "pruning_ratio": 1.0,
        "iterative_steps": STEPS,
        "ignored_layers": _fixed_layers(net, space),
        # its defaults are one dict for all pruners of a process
        "in_channel_groups": {},
        "out_channel_groups": {},
    }
    if sparse:
        return tp.pruner.GroupNormPruner(net.eval(), reg=PENALTY, **options)
    return tp.pruner.BasePruner(net.eval(), **options)


def _fixed_layers(net: nn.Module, space: Space) -> list[nn.Module]:
    """The layers whose outputs stay: the last one, and those that may not change."""
    channels = ChannelGroups(space).channels
    free = {layer.name for layer in space.layers if any(channels[layer.outputs])}
    kinds = nn.modules.conv._ConvNd, nn.Linear
    return [m for name, m in net.named_modules() if isinstance(m, kinds) and name not in free]


def _prune(model: nn.Module, space: Space, budget: Budget, *, norm: int) -> Shape:
    """The shape that Torch-Pruning makes of a network: the first one at or below the target, or, if
    that is below the band, the first one inside it."""
    for limit in (budget.value, budget.high):
        net = copy.deepcopy(model)
        pruner = make_pruner(net, space, norm=norm)
        shape = prune_until(net, pruner, space, partial(_costs_at_most, space, budget, limit))
        if budget.holds(cost := budget.cost(space, shape)):
            _check_same(model, net, space, budget, shape)
            return shape
    raise BandError(
        f"Torch-Pruning comes to {describe_cost(budget.metric, cost)}, outside of {budget.band}; "
        "use a larger tolerance"
    )


def _costs_at_most(space: Space, budget: Budget, limit: float, shape: Shape) -> bool:
    return budget.cost(space, shape) <= limit


def prune_until(
    net: nn.Module, pruner: Any, space: Space, enough: Callable[[Shape], bool]
) -> Shape:
    """Prune a network step by step, in place; returns the shape of what is left."""
    names = {module: name for name, module in net.named_modules()}
    left = {name: list(range(width)) for name, width in space.full.widths.items()}
    shape = space.full
    for _ in range(STEPS):
        for group in pruner.step(interactive=True):
            for dep, indexes in group:
                name = names.get(dep.target.module)
                if name in left and pruner.DG.is_out_channel_pruning_fn(dep.handler):
                    lost = set(indexes)
                    left[name] = [c for i, c in enumerate(left[name]) if i not in lost]
            group.prune()
            picked = {name: tuple(channels) for name, channels in left.items()}
            widths = {name: len(channels) for name, channels in picked.items()}
            shape = Shape(widths, space.full.depths, picked)
            if enough(shape):
                return shape
    return shape


def _check_same(
    model: nn.Module, pruned: nn.Module, space: Space, budget: Budget, shape: Shape
) -> None:
    """Raise an error unless the network of the shape is the one that Torch-Pruning has made."""
    images = torch.rand(2, *space.input_shape, generator=torch.Generator().manual_seed(0))
    small = slimmed(model, space, budget, shape).model
    with torch.no_grad():
        theirs, ours = (net.eval()(images) for net in (pruned, small))
    if not torch.allclose(theirs, ours, rtol=1e-3, atol=1e-4):
        raise RuntimeError("what is left is not part of the unpruned network")


@contextmanager
def _penalised(pruner: Any, net: nn.Module) -> Iterator[None]:
    """Within the context, the pruner adds its penalty to the gradients of the network before each
    step of an optimizer, as in its README."""
    pruner.update_regularizer()
    hook = register_optimizer_step_pre_hook(lambda *_: pruner.regularize(net))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Turn any exception of Torch-Pruning about a network into a ValueError of one line."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0] or type(error).__name__
        raise ValueError(f"Torch-Pruning fails on this network: {reason}") from error
