"""A VGG of six convolutions for small images: a network without stages, to be pruned.

Its teacher:

    tas train --model benchmarks/small_vgg.py:vgg --data cifar10:16 --data-dir DIR --epochs 12
"""

from torch import nn


def vgg(num_classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for pair in (32, 64, 128):
        for width in (pair, pair):
            convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            channels = width
        layers.append(nn.MaxPool2d(2) if pair < 128 else nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, num_classes))
