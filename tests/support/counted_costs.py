"""Costs by other means than the project's."""

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def counted_macs(network: nn.Module, input_shape: tuple[int, ...]) -> int:
    """torch's own operation counter on one image, plus one for each bias of a linear layer."""
    network.eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, *input_shape))
    linears = [m for m in network.modules() if isinstance(m, nn.Linear) and m.bias is not None]
    return int(counter.get_total_flops()) // 2 + sum(m.out_features for m in linears)


def counted_params(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())
