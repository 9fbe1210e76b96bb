"""Channel Pruning for Accelerating Very Deep Neural Networks. He, Zhang, Sun. ICCV 2017.

Channels are pruned group by group in order of execution: a LASSO finds the channels from which the
layers that read them can best reconstruct their outputs in the unpruned network, and least squares
gives those layers new weights for the channels that are kept. Nothing is trained.

Differences from the paper: the speed-up of each layer, set by hand there, is one share of channels,
solved for the budget. Layers that are added to each other lose the same channels, and all layers
that read them count, each relative to the size of its output; the paper keeps the width of such a
stream, skips channels of it inside the blocks, and lets the end of a block correct the errors of
the stream before it. Channels enter the LASSO with their weights as they are, not scaled to norm 1,
and its path is followed exactly instead of raising lambda in steps. Least squares has a small ridge
penalty towards the old weights, and uses fewer images (250, or less if they are large) at more
places each. Layers other than plain convolutions on images and linear layers behind them keep their
weights.
"""

import copy
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..costing.budget import Budget
from ..seeds import generator
from ..shape import Shape
from ..slimming.slim import slim
from ..tracing.channel_groups import ChannelGroups
from ..tracing.layouts import kept_channels
from ..tracing.reader import Layer
from ..tracing.space import Space
from ..training.train import preserve_random_state
from ._channel_choice import drop_single_channels, keep_by_ratio
from ._reconstruction import lasso_problem, least_squares, ranking, windows
from .interface import Context, MethodResult, slimmed

__all__ = ["cp"]

ROWS = 5000  # places in all images together at which a layer is reconstructed
IMAGES, FEWEST = 250, 32  # number of images up to 32 x 32 pixels, and of images of any size
OUTPUTS = 512  # outputs of a layer that take part in the choice of its inputs, at most
RIDGE = 1e-3

Choice = Callable[[str, Tensor, Tensor], list[int]]
"""From a group and its LASSO problem (Gram matrix and correlations) to the channels kept."""
Observer = Callable[[Layer, Any, Tensor], None]  # called with a layer, its module and its input


def cp(model: nn.Module, space: Space, budget: Budget, context: Context) -> MethodResult:
    groups = ChannelGroups(space)
    leading = {head: -torch.arange(size).float() for head, size in groups.sizes.items()}
    kept = groups.kept(keep_by_ratio(groups, budget, leading))
    widths = {head: len(channels) for head, channels in kept.items()}
    scores: dict[str, Tensor] = {}

    def by_lasso(head: str, gram: Tensor, correlation: Tensor) -> list[int]:
        order = ranking(gram, correlation, widths[head])
        scores[head] = -torch.tensor(order).argsort().float()
        return order[: widths[head]]

    with preserve_random_state(context.session.fabric):
        pruning = Pruning(model, groups, context)
        pruning.run(by_lasso)
        spent = pruning.seen
        if not budget.holds(budget.cost(space, pruning.shape)):
            # where a shortcut is padded, the cost also depends on which channels are kept: solve
            # for the ratio again, now with the ranking of the LASSO
            chosen = groups.kept(keep_by_ratio(groups, budget, scores))
            pruning = Pruning(model, groups, context)
            pruning.run(lambda head, *_: chosen[head])
            spent += pruning.seen
        shape = drop_single_channels(groups, budget, scores, pruning.shape)
        passes = context.forward_passes(spent)
        return slimmed(pruning.weights, space, budget, shape, passes=passes)


class Pruning:
    """A network while it is pruned: the weights at full size, the channels kept of each group, and
    the slim network of both, which shows the present inputs of the layers."""

    def __init__(self, model: nn.Module, groups: ChannelGroups, context: Context) -> None:
        self.groups, self.seed = groups, context.session.seed
        self.picked = {head: list(range(size)) for head, size in groups.sizes.items()}
        self.whole, self.weights = copy.deepcopy(model), copy.deepcopy(model)
        self.small = self.slim()
        self.images = _images(groups.space, context)
        self.seen = 0  # images that went through a network

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
        channels = self.groups.channels[layer.inputs]
        module = self.whole.get_submodule(layer.name)
        matrix = isinstance(module, nn.Conv2d) or (layer.kind == "linear" and layer.pixels == 1)
        plain = layer.kind in ("conv", "linear") and matrix and not layer.standardised
        return plain and any(c and c[0] == head for c in channels)

    def targets(self, readers: list[Layer]) -> dict[str, Tensor]:
        """The outputs of these layers in the unpruned network, without the bias."""
        found = {}

        def observe(layer: Layer, module: Any, x: Tensor) -> None:
            found[layer.name] = self.rows(layer, module, x) @ _matrix(module)

        self.run_observed(self.whole, readers, observe)
        return found

    def lasso(
        self, head: str, readers: list[Layer], targets: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The sum of the problems of all readers, each relative to the size of its target."""
        size = self.groups.sizes[head]
        gram, correlation = torch.zeros(size, size).double(), torch.zeros(size).double()

        def observe(layer: Layer, module: Any, x: Tensor) -> None:
            ins, outs = self.kept_indices(layer)
            channels = self.groups.channels[layer.inputs]
            own = [c[1] if (c := channels[i]) and c[0] == head else -1 for i in ins.tolist()]
            columns = torch.tensor(own).repeat_interleave(layer.area)
            step = -(-len(outs) // OUTPUTS)
            X, Y = self.rows(layer, module, x), targets[layer.name][:, outs[::step]]
            parts = lasso_problem(X, Y, _matrix(module)[:, ::step], columns, size)
            for total, part in zip((gram, correlation), parts, strict=True):
                total += part / Y.square().sum().clamp(min=1e-30)

        self.run_observed(self.small, readers, observe)
        return gram, correlation

    def reconstruct(self, readers: list[Layer], targets: dict[str, Tensor]) -> None:
        """New weights for the readers, in order; later ones see the new outputs of earlier ones."""

        def observe(layer: Layer, module: Any, x: Tensor) -> None:
            ins, outs = self.kept_indices(layer)
            X, Y = self.rows(layer, module, x), targets[layer.name][:, outs]
            found = least_squares(X, Y, _matrix(module), RIDGE)
            module.weight.copy_(found.T.reshape(module.weight.shape))
            whole: Any = self.weights.get_submodule(layer.name)
            whole.weight[outs[:, None], ins] = module.weight

        self.run_observed(self.small, readers, observe)

    def run_observed(self, network: nn.Module, layers: list[Layer], observer: Observer) -> None:
        """Run the network, and call the observer for each of these layers before it computes."""
        hooks = [
            network.get_submodule(layer.name).register_forward_pre_hook(
                lambda module, inputs, layer=layer: observer(layer, module, inputs[0])
            )
            for layer in layers
        ]
        with torch.no_grad():
            network.eval()(self.images.to(next(network.parameters()).device))
        self.seen += len(self.images)
        for hook in hooks:
            hook.remove()

    def rows(self, layer: Layer, module: nn.Module, x: Tensor) -> Tensor:
        """The inputs of the layer at some places of each image, always the same ones."""
        every = np.tile(np.arange(layer.pixels), (len(x), 1))
        shuffled = generator("places", self.seed, layer.order).permuted(every, axis=1)
        places = torch.from_numpy(shuffled[:, : max(1, ROWS // len(x))]).to(x.device)
        return windows(module, x, places, layer.size[-1]).cpu().double()

    def kept_indices(self, layer: Layer) -> tuple[Tensor, Tensor]:
        """The indices of the inputs and outputs of the layer that are kept."""
        layouts = self.groups.space.layouts
        masks = self.groups.space.masks(self.shape)
        ins, outs = (kept_channels(layouts, masks, i) for i in (layer.inputs, layer.outputs))
        return torch.tensor(ins), torch.tensor(outs)


def _matrix(module: Any) -> Tensor:
    matrix: Tensor = module.weight.detach().flatten(1).T.cpu().double()
    return matrix


def _images(space: Space, context: Context) -> Tensor:
    train = context.dataset.train
    count = min(IMAGES, max(FEWEST, IMAGES * 32 * 32 // prod(space.input_shape[1:])))
    order = generator("images", context.session.seed).permutation(len(train))[:count]
    return torch.cat([x for x, _ in train.subset(torch.from_numpy(order)).ordered(count)])
