"""The importance of channels by how much the network's own outputs depend on them."""

import copy
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..resizing import MATRICES
from ..task import Classification, Task
from ..tracing.channel_groups import ChannelGroups
from ..tracing.space import Space

__all__ = ["fisher_importance"]


def fisher_importance(
    model: nn.Module,
    space: Space,
    batches: Iterable[Tensor],
    *,
    task: Task | None = None,
    temperature: float = 4.0,
) -> dict[str, Tensor]:
    """For each channel of each movable group, the Fisher information of a gate on it.

    It is the mean square of the derivative of the log-likelihood of a target by the gate, summed
    over all layers and positions that write the channel. The targets are drawn from the softened
    outputs of the network itself, so that no labels are needed: on images that it was trained on,
    the loss of a network has next to no gradient left.
    """
    task = task or Classification()
    # a copy, of which no parameter is frozen: gradients have to reach every channel
    groups, model = ChannelGroups(space), copy.deepcopy(model).eval().requires_grad_()
    outputs: dict[int, list[Tensor]] = defaultdict(list)
    axes: dict[int, int] = {}
    normed = {layer.outputs for layer in space.layers if layer.kind == "norm"}

    def keep(index: int, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        output.retain_grad()
        outputs[index].append(output)
        axes[index] = output.ndim - 1 if isinstance(module, nn.Linear) else 1
        return output.clone()  # a later in-place operation must not change the recorded tensor

    for layer in space.layers:
        writes = layer.kind in MATRICES and layer.outputs not in normed
        if (layer.kind == "norm" or writes) and groups.positions(layer.outputs):
            module = model.get_submodule(layer.name)
            module.register_forward_hook(partial(keep, layer.outputs))
    totals = {group: torch.zeros(groups.sizes[group]) for group in groups.movable}
    count, generator = 0, torch.Generator().manual_seed(0)
    for x in batches:
        outputs.clear()
        answers = model(x)
        if not answers.isfinite().all():
            raise ValueError(
                "the outputs of the unpruned network (the teacher) are not finite; train it with a "
                "lower lr (train.lr)"
            )
        loss = task.surprise(answers, generator, temperature)
        loss.backward()  # type: ignore[no-untyped-call]
        gates: dict[str, Tensor] = {}
        for index, tensors in outputs.items():
            for tensor in tensors:
                if tensor.grad is not None:
                    slopes = (tensor.detach() * tensor.grad).movedim(axes[index], 1)
                    slopes = slopes[..., None].flatten(2).sum(2).cpu()
                    for group, positions in groups.positions(index).items():
                        gates[group] = gates.get(group, 0) + slopes[:, positions].sum(2)
        for group, slopes in gates.items():
            totals[group] += slopes.square().sum(0)
        count += len(x)
        model.zero_grad()
    return {group: total / max(1, count) for group, total in totals.items()}
