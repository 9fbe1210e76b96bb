"""torch-pruning's importance criteria, applied to one layer at a time."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from ..tracing.channel_groups import ChannelGroups
from ..tracing.reader import Layer
from ._channel_choice import Scores

__all__ = ["filter_norms", "filters", "mean_score", "norms", "torch_pruning_criteria"]


def torch_pruning_criteria() -> Any:
    """torch-pruning's module of criteria; a ValueError if it is not installed."""
    try:
        from torch_pruning.pruner import importance
    except ImportError:
        raise ValueError(
            "this method needs torch-pruning; install it by pip install 'transformable[methods]'"
        ) from None
    return importance


def mean_score(
    layers: Iterator[tuple[Layer, Any]], groups: ChannelGroups, criterion: Any
) -> Scores:
    """The score of each channel: the mean of a criterion over the layers that make or scale it."""
    return groups.mean((layer.outputs, _score(criterion, module)) for layer, module in layers)


def filter_norms(model: nn.Module, groups: ChannelGroups, p: int) -> Scores:
    """The sum of |w|^p over the weights w of each filter."""
    criterion = torch_pruning_criteria().MagnitudeImportance(p=p, normalizer=None)
    return mean_score(filters(model, groups), groups, criterion)


def filters(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Any]]:
    """The convolutions and linear layers whose outputs are the channels of the groups."""
    for _, layer in groups.makers():
        yield layer, model.get_submodule(layer.name)


def norms(model: nn.Module, groups: ChannelGroups) -> Iterator[tuple[Layer, Any]]:
    """The batch norms that scale channels."""
    for layer in groups.space.layers:
        module = model.get_submodule(layer.name)
        if layer.kind == "norm" and isinstance(module, _BatchNorm) and module.affine:
            yield layer, module


class _Item(NamedTuple):
    """One layer, in the form that a criterion takes."""

    dep: Any
    idxs: list[int]

    @property
    def root_idxs(self) -> list[int]:
        return self.idxs


def _score(criterion: Any, module: nn.Module) -> Tensor:
    from torch_pruning.pruner import function

    channels = list(range(len(module.weight)))  # type: ignore[arg-type]
    prunes = {
        nn.Conv2d: function.prune_conv_out_channels,
        nn.Linear: function.prune_linear_out_channels,
        _BatchNorm: function.prune_batchnorm_out_channels,
    }
    prune = next(prunes[kind] for kind in prunes if isinstance(module, kind))
    target = SimpleNamespace(module=module)
    dep = SimpleNamespace(layer=module, pruning_fn=prune, target=target, handler=prune)
    score: Tensor = criterion([_Item(dep, channels)])
    return score
