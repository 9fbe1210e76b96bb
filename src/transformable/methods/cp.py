"""Channel Pruning for Accelerating Very Deep Neural Networks. He, Zhang, Sun. ICCV 2017.

In order of execution, each group of channels is thinned out: a LASSO finds the channels from which
the layers that read them can best make what they made in the unpruned network, and least squares
gives those layers new weights for the channels that are left. Nothing is trained.

The paper sets the speed-up of each layer by hand; here all keep the same share of their channels,
solved for the budget. Layers that are added to each other lose the same channels, and all layers
that read them count, each relative to the size of what it makes; the paper leaves such a stream at
its width, skips channels of it inside the blocks, and lets the end of a block correct what went
wrong in the stream before it. Channels enter the LASSO with their weights as they are, not scaled
to norm 1, and its path is followed exactly instead of raising lambda in steps. Least squares is
held back a little, towards the weights as they were, and sees fewer images (250, or less if they
are large) at more places each.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..seeds import generator
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing import Layer, kept_channels
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space
from ..training.train import own_randomness
from ._channel_choice import by_ratio, loosened
from ._reconstruction import lasso_problem, least_squares, ranking, windows
from .interface import Context, MethodResult

__all__ = ["cp"]

ROWS = 5000
IMAGES = 250
FEWEST = 32
"""Images, however large; up to 32 x 32 pixels, there are so many as ``IMAGES``."""
OUTPUTS = 512
"""Of a layer's outputs, at most so many take part in the choice of its inputs."""
RIDGE = 1e-3

Choice = Callable[[str, Tensor, Tensor], list[int]]
"""From a group and its LASSO (Gram matrix and correlations) to the channels that stay."""
Watcher = Callable[[Layer, Any, Tensor], None]


def cp(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    """Keep the channels that the LASSO keeps, with weights that make up for the others."""
    groups = ChannelGroups(space)
    leading = {head: -torch.arange(size).float() for head, size in groups.sizes.items()}
    kept = groups.kept(by_ratio(groups, budget, leading))
    widths = {head: len(channels) for head, channels in kept.items()}
    scores: dict[str, Tensor] = {}

    def by_lasso(head: str, gram: Tensor, correlation: Tensor) -> list[int]:
        order = ranking(gram, correlation, widths[head])
        scores[head] = -torch.tensor(order).argsort().float()
        return order[: widths[head]]

    with own_randomness(context.session.fabric):
        pruning = Pruning(model, groups, context)
        pruning.run(by_lasso)
        if not budget.holds(budget.cost(space, pruning.shape)):
            # a padded shortcut puts channels of one group beside those of another, and then the
            # cost depends on which ones they are: with these in front, solve for the ratio again
            chosen = groups.kept(by_ratio(groups, budget, scores))
            pruning = Pruning(model, groups, context)
            pruning.run(lambda head, *_: chosen[head])
        shape = loosened(groups, budget, scores, pruning.shape)
        small = slim(pruning.weights, space, shape)
    return MethodResult(shape=shape, model=small, cost=budget.cost(space, shape))


class Pruning:
    """A network on its way: weights at full size, the channels that are left of each group, and the
    slim network of both, on which is seen what the layers are given by now."""

    def __init__(self, model: nn.Module, groups: ChannelGroups, context: Context) -> None:
        self.groups, self.seed = groups, context.session.seed
        self.picked = {head: list(range(size)) for head, size in groups.sizes.items()}
        self.whole, self.weights = copy.deepcopy(model), copy.deepcopy(model)
        self.small = self.slim()
        self.images = _images(groups.space, context)

    @property
    def shape(self) -> Shape:
        return self.groups.shape(self.picked)

    def slim(self) -> nn.Module:
        return slim(self.weights, self.groups.space, self.shape)

    def run(self, choice: Choice) -> None:
        for head in self.groups.sizes:
            readers = [layer for layer in self.groups.space.layers if self.reads(layer, head)]
            targets = self.targets(readers)
            self.picked[head] = choice(head, *self.lasso(head, readers, targets))
            self.small = self.slim()
            self.reconstruct(readers, targets)

    def reads(self, layer: Layer, head: str) -> bool:
        channels = self.groups.channels(layer.inputs)
        return layer.kind in ("conv", "linear") and any(c and c[0] == head for c in channels)

    def targets(self, readers: list[Layer]) -> dict[str, Tensor]:
        """What they make in the unpruned network, without the bias."""
        found = {}

        def see(layer: Layer, module: Any, x: Tensor) -> None:
            found[layer.name] = self.rows(layer, module, x) @ _matrix(module)

        self.watch(self.whole, readers, see)
        return found

    def lasso(
        self, head: str, readers: list[Layer], targets: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The problems of all readers as one, each relative to the size of its target."""
        size = self.groups.sizes[head]
        gram, correlation = torch.zeros(size, size).double(), torch.zeros(size).double()

        def see(layer: Layer, module: Any, x: Tensor) -> None:
            ins, outs = self.numbers(layer)
            channels = self.groups.channels(layer.inputs)
            own = [c[1] if (c := channels[i]) and c[0] == head else -1 for i in ins.tolist()]
            columns = torch.tensor(own).repeat_interleave(layer.area)
            step = -(-len(outs) // OUTPUTS)
            X, Y = self.rows(layer, module, x), targets[layer.name][:, outs[::step]]
            parts = lasso_problem(X, Y, _matrix(module)[:, ::step], columns, size)
            for total, part in zip((gram, correlation), parts, strict=True):
                total += part / Y.square().sum().clamp(min=1e-30)

        self.watch(self.small, readers, see)
        return gram, correlation

    def reconstruct(self, readers: list[Layer], targets: dict[str, Tensor]) -> None:
        """New weights for the readers; a later one already sees what an earlier one then makes."""

        def see(layer: Layer, module: Any, x: Tensor) -> None:
            ins, outs = self.numbers(layer)
            X, Y = self.rows(layer, module, x), targets[layer.name][:, outs]
            found = least_squares(X, Y, _matrix(module), RIDGE)
            module.weight.copy_(found.T.reshape(module.weight.shape))
            whole: Any = self.weights.get_submodule(layer.name)
            whole.weight[outs[:, None], ins] = module.weight

        self.watch(self.small, readers, see)

    def watch(self, network: nn.Module, layers: list[Layer], see: Watcher) -> None:
        """Look at layers and their inputs, at each just before it computes."""
        hooks = [
            network.get_submodule(layer.name).register_forward_pre_hook(
                lambda module, inputs, layer=layer: see(layer, module, inputs[0])
            )
            for layer in layers
        ]
        with torch.no_grad():
            network.eval()(self.images.to(next(network.parameters()).device))
        for hook in hooks:
            hook.remove()

    def rows(self, layer: Layer, module: nn.Module, x: Tensor) -> Tensor:
        """What the layer sees at some places of each image, always the same ones."""
        every = np.tile(np.arange(layer.pixels), (len(x), 1))
        shuffled = generator("places", self.seed, layer.order).permuted(every, axis=1)
        places = torch.from_numpy(shuffled[:, : max(1, ROWS // len(x))]).to(x.device)
        return windows(module, x, places, layer.size[-1]).cpu().double()

    def numbers(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """Which inputs and outputs of the layer are left."""
        layouts = self.groups.space.layouts
        masks = self.groups.space.masks(self.shape)
        ins, outs = (kept_channels(layouts, masks, i) for i in (layer.inputs, layer.outputs))
        return torch.tensor(ins), torch.tensor(outs)


def _matrix(module: Any) -> Tensor:
    matrix: Tensor = module.weight.detach().flatten(1).T.cpu().double()
    return matrix


def _images(space: Space, context: Context) -> Tensor:
    train = context.dataset.train
    _, height, width = space.input_shape
    count = min(IMAGES, max(FEWEST, IMAGES * 32 * 32 // (height * width)))
    order = generator("images", context.session.seed).permutation(len(train))[:count]
    return torch.cat([x for x, _ in train.subset(torch.from_numpy(order)).ordered(count)])
