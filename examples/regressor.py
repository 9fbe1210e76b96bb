"""Prune a network that does not classify: it says where a blob is in an image.

python examples/regressor.py
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

import transformable as tas


class Blobs(Dataset[tuple[Tensor, Tensor]]):
    """Any torch dataset whose items are (image, target): here a noisy blob and its centre."""

    def __init__(self, count: int, seed: int) -> None:
        self.places = torch.rand(count, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        line, (y, x) = torch.linspace(-1, 1, 16), self.places[index]
        blob = torch.exp(-8 * ((line[:, None] - y).square() + (line - x).square()))
        return (blob + 0.5 * torch.randn(16, 16))[None], self.places[index]  # new noise every time


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
data = tas.data.from_datasets(Blobs(800, 0), Blobs(400, 1), objective=objective, score=score)
net = tas.train(net, data, tas.Training(epochs=8, batch_size=32, lr=0.02)).model
for method, epochs in (("tas", 4), ("uniform", 5)):  # the search is a pass over the images too
    settings = tas.Distilling(epochs=epochs, batch_size=32, lr=0.005)
    pruned = tas.prune(net, data, 0.5, method=method, trained=True, distilling=settings)
    before, after = (pruned.summary[side] for side in ("before", "after"))
    print(f"{method}: score {before['score']:.3f} -> {after['score']:.3f}", end=", ")
    print(f"{after['macs'] / before['macs']:.2f} of the MACs, {pruned.summary['passes']}")
