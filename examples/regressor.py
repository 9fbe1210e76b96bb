"""Prune a network that says where a blob is in an image: python examples/regressor.py"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

import transformable as tas


class Blobs(Dataset[tuple[Tensor, Tensor]]):
    """Any torch dataset whose items are (image, target): here a blob in noise, and its centre."""

    def __init__(self, count: int) -> None:
        self.places = 2 * torch.rand(count, 2) - 1

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        line, (y, x) = torch.linspace(-1, 1, 16), self.places[index]
        blob = torch.exp(-8 * ((line[:, None] - y).square() + (line - x).square()))
        return (blob + 0.2 * torch.randn(16, 16))[None], self.places[index]  # new noise every time


def objective(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    return F.mse_loss(model(batch[0]), batch[1])


def score(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Minus the distance from the centre, for each image."""
    return -(model(batch[0]) - batch[1]).norm(dim=1)


torch.manual_seed(0)
layers: list[nn.Module] = []
for c_in, c_out, stride in ((1, 16, 1), (16, 32, 2), (32, 32, 2)):
    layers += [nn.Conv2d(c_in, c_out, 3, stride, 1), nn.BatchNorm2d(c_out), nn.ReLU()]
net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, 2))
data = tas.data.from_datasets(Blobs(800), Blobs(400), objective=objective, score=score)
net = tas.train(net, data, tas.Training(epochs=8, batch_size=32, lr=0.02)).model
for method, epochs in (("tas", 3), ("uniform", 6)):  # the search takes 2.3 passes over the images
    settings = tas.Distilling(epochs=epochs, batch_size=32, lr=0.02)
    found = tas.prune(net, data, 0.5, method=method, trained=True, distilling=settings).summary
    before, after, passes = found["before"], found["after"], sum(found["passes"].values())
    print(f"{method}: score {before['score']:.3f} -> {after['score']:.3f},", end=" ")
    print(f"{after['macs'] / before['macs']:.2f} of the MACs, {passes:.1f} passes")
