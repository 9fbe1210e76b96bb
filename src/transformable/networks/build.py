"""Build the network that ``--model`` names: a known one, one of a package, or a user's own."""

from torch import nn

from .. import models
from ..data import Info
from ..training.checks import check_outputs
from ..user_code import accepted_arguments, first_line, is_function_spec, load_function
from .packages import build_from_package, is_package_spec

__all__ = ["build_for_dataset", "build_network"]


def build_for_dataset(spec: str, info: Info) -> nn.Module:
    """Build the network for a dataset and check its outputs on an image of that size."""
    model = build_network(spec, num_classes=info.num_classes, in_channels=info.input_shape[0])
    check_outputs(model, info)
    return model


def build_network(spec: str, *, num_classes: int, in_channels: int) -> nn.Module:
    """The network called ``spec``, or what the function ``path.py:function`` returns; ``timm:NAME``
    and ``torchvision:NAME`` are networks of these packages.

    The function is called with ``num_classes`` and ``in_channels`` where it takes them.
    """
    sizes = {"num_classes": num_classes, "in_channels": in_channels}
    if is_package_spec(spec):
        return build_from_package(spec, **sizes)
    if not is_function_spec(spec):
        return models.build(spec, **sizes)
    function = load_function(spec, "model")
    try:
        model = function(**accepted_arguments(function, sizes))
    except (Exception, SystemExit) as error:
        raise ValueError(f"model {spec!r} failed: {first_line(error)}") from error
    if not isinstance(model, nn.Module):
        raise ValueError(
            f"model {spec!r} returned {type(model).__name__}; it must return a torch.nn.Module"
        )
    return model
