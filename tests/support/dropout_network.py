"""A network and random images as files: ``--model=net.py:net --data=npz:tiny.npz``."""

from pathlib import Path

import numpy as np

# dropout and batch norm make the bits depend on all that has to be restored
NET = """
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.drop = nn.Conv2d(8, 8, 3, 1, 1), nn.BatchNorm2d(8), nn.Dropout(0.1)

    def forward(self, x):
        return (self.drop(self.bn(self.conv(x))) + x).relu()

def net(num_classes, in_channels):
    return nn.Sequential(
        nn.Conv2d(in_channels, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Sequential(Block(), Block()),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, num_classes),
    )
"""


def write_files(folder: Path, images: int, net: str = NET) -> None:
    """Write the network and so many images of 8x8 in three classes."""
    pixels = np.random.default_rng(0).integers(0, 256, (images, 8, 8), dtype=np.uint8)
    labels = np.arange(images) % 3
    np.savez(folder / "tiny.npz", x_train=pixels, y_train=labels, x_test=pixels, y_test=labels)
    (folder / "net.py").write_text(net)
