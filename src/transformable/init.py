"""How a layer starts: the paper's initialisation, for whole networks and for single channels."""

from torch import nn

__all__ = ["initialise"]


def initialise(network: nn.Module) -> None:
    """Convolutions kaiming-normal by fan-out, linear layers N(0, .01), norms one and zero."""
    for module in network.modules():
        match module:
            case nn.Conv2d():
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            case nn.Linear():
                nn.init.normal_(module.weight, 0, 0.01)
            case nn.BatchNorm2d() | nn.BatchNorm1d():
                module.reset_running_stats()
                if module.affine:
                    nn.init.ones_(module.weight)
            case nn.PReLU():
                nn.init.constant_(module.weight, 0.25)
        bias = getattr(module, "bias", None)
        if isinstance(bias, nn.Parameter):
            nn.init.zeros_(bias)
