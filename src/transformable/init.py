"""How a layer starts: the paper's initialisation, for whole networks and for new channels."""

from typing import Any

from torch import Tensor, nn

__all__ = ["initialise"]


def initialise(network: nn.Module) -> None:
    """Convolutions kaiming-normal by fan-out, linear layers N(0, .01), biases 0, norms 1 and 0.

    A layer that the paper does not use starts as torch starts it.
    """
    for module in network.modules():
        match module:
            case nn.Conv2d():
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                _zero(module.bias)
            case nn.Linear():
                nn.init.normal_(module.weight, 0, 0.01)
                _zero(module.bias)
            case _ if hasattr(module, "reset_parameters"):
                reset: Any = module.reset_parameters
                reset()


def _zero(bias: Tensor | None) -> None:
    if bias is not None:
        nn.init.zeros_(bias)
