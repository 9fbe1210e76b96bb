"""How every long-running command begins."""

import torch
from lightning_fabric import Fabric
from torch import nn

from .. import data
from ..arguments import Search, Train
from ..data import Dataset
from ..devices import make_fabric
from ..factory import network

__all__ = ["prepare"]


def prepare(args: Train | Search) -> tuple[Fabric, Dataset, nn.Module]:
    """Where the work is done, what it is done on, and the network with the weights of the seed."""
    fabric = make_fabric(args.device, devices=args.devices, precision=args.precision)
    dataset = data.load(
        args.data,
        args.data_dir,
        validation=args.validation,
        seed=args.seed,
        download=args.download,
        workers=args.workers,
    )
    torch.manual_seed(args.seed)
    return fabric, dataset, network(args.model, dataset.info)
