"""Prune a network of your own on tensors of your own.

python examples/own_network.py
"""

import torch
from torch import Tensor, nn

import transformable as tas


class Net(nn.Module):
    """Any network that torch.fx can trace will do."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for c_in, c_out in ((1, 16), (16, 32), (32, 32)):
            layers += [nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.classifier = nn.Linear(32 * 16, 4)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.features(x))
        return logits


torch.manual_seed(0)
labels = torch.arange(400) % 4  # the quarter of the image that is bright
images = torch.randint(0, 120, (400, 1, 12, 12), dtype=torch.uint8)
for image, label in zip(images, labels.tolist(), strict=True):
    image[0].view(2, 6, 2, 6)[label // 2, :, label % 2] += 100
data = tas.data.from_tensors((images[:320], labels[:320]), (images[320:], labels[320:]))

pruned = tas.prune(Net(), data, budget=0.4, out="runs/own")  # 40 % of the MACs
for name in ("before", "after"):
    print(name, {key: round(value, 4) for key, value in pruned.summary[name].items()})
print(pruned.shape.widths)
print(pruned.model)  # a Net with narrower layers, trained
