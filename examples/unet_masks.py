"""Prune a small U-Net that marks the disc, not the ring: python examples/unet_masks.py"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas


def block(c_in: int, c_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(c_in, c_out, 3, 1, 1), nn.BatchNorm2d(c_out), nn.ReLU())


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.high, self.low = block(1, 12), nn.Sequential(block(12, 24), block(24, 24))
        self.up, self.last = nn.Upsample(None, 2), nn.Sequential(block(36, 12), nn.Conv2d(12, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        high = self.high(x)
        return self.last(torch.cat([high, self.up(self.low(F.max_pool2d(high, 2)))], 1))


def pictures(count: int) -> list[tuple[Tensor, Tensor]]:
    y, x = (torch.arange(24.0) - 4 - 16 * torch.rand(count, 2, 2, 1)).unbind(2)
    distance = (y[..., None] ** 2 + x[..., None, :] ** 2).sqrt()
    disc, ring = distance[:, :1] < 4, (distance[:, 1:] - 4).abs() < 1
    return list(zip((disc | ring) + 0.5 * torch.randn(disc.shape), disc.float(), strict=True))


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(batch[0]), batch[1])


def score(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    found, mask = model(batch[0]) > 0, batch[1] > 0  # intersection over union, for each image
    return (found & mask).sum((1, 2, 3)) / (found | mask).sum((1, 2, 3))


torch.manual_seed(0)
data = tas.data.from_datasets(pictures(600), pictures(200), objective=objective, score=score)
net = tas.train(UNet(), data, tas.Training(epochs=8, batch_size=20)).model
for method, epochs in (("tas", 4), ("uniform", 7)):  # the search takes 2.6 passes over the images
    settings = tas.Distilling(epochs=epochs, batch_size=20)
    found = tas.prune(net, data, 0.5, method=method, trained=True, distilling=settings).summary
    before, after, passes = found["before"], found["after"], sum(found["passes"].values())
    print(f"{method}: score {before['score']:.3f} -> {after['score']:.3f},", end=" ")
    print(f"{after['macs'] / before['macs']:.2f} of the MACs, {passes:.1f} passes")
