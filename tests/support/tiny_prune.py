"""A small network in a file of its own, with images that it can learn, for ``tas prune``."""

from pathlib import Path

import numpy as np

NET = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(12, 12, 3, 1, 1), nn.BatchNorm2d(12)

    def forward(self, x):
        return (self.bn(self.conv(x)) + x).relu()

class Net(nn.Module):
    def __init__(self, num_classes, in_channels):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(in_channels, 12, 3), nn.BatchNorm2d(12), nn.ReLU())
        self.stage = nn.Sequential(Block(), Block())
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(12, num_classes)

    def forward(self, x):
        return self.fc(self.pool(self.stage(self.stem(x))).flatten(1))

def net(num_classes, in_channels):
    return Net(num_classes, in_channels)
"""

OPTIONS = [
    "prune",
    "--model=net.py:net",
    "--data=npz:tiny.npz",
    "--teacher-epochs=4",
    "--search-epochs=3",
    "--epochs=4",
    "--batch-size=16",
    "--budget=0.5",
    "--tolerance=0.1",
]


def prepare(folder: Path) -> Path:
    """Write net.py and tiny.npz: the class of an image is where its bright stripe is."""
    random = np.random.default_rng(0)
    labels = np.arange(160) % 4
    images = random.integers(0, 120, (160, 8, 8), dtype=np.uint8)
    for image, label in zip(images, labels, strict=True):
        image[:, 2 * label : 2 * label + 2] += 100
    np.savez(
        folder / "tiny.npz",
        x_train=images[:120],
        y_train=labels[:120],
        x_test=images[120:],
        y_test=labels[120:],
    )
    (folder / "net.py").write_text(NET)
    return folder
