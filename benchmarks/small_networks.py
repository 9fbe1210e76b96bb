"""Networks of other families, for images of 16x16 or so: to see whether a search serves them too.

The teacher of one of them:

    tas train --model benchmarks/small_networks.py:vgg --data cifar10:16 --data-dir DIR --epochs 12
"""

import torch
from torch import Tensor, nn


def vgg(num_classes: int) -> nn.Module:
    """Six convolutions, without stages or residuals."""
    layers: list[nn.Module] = []
    channels = 3
    for pair in (32, 64, 128):
        for width in (pair, pair):
            layers += conv_norm_relu(channels, width, 3)
            channels = width
        layers.append(nn.MaxPool2d(2) if pair < 128 else nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, num_classes))


def mobilenet(num_classes: int) -> nn.Module:
    """Three stages of inverted residuals: 1x1, depthwise 3x3, 1x1."""
    stages, channels = [nn.Sequential(*conv_norm_relu(3, 16, 3))], 16
    for width, stride in ((16, 1), (24, 2), (40, 2)):
        first = Inverted(channels, width, stride)
        stages.append(nn.Sequential(first, *(Inverted(width, width, 1) for _ in range(2))))
        channels = width
    stages.append(nn.Sequential(*conv_norm_relu(channels, 160, 1)))
    return classifier(stages, 160, num_classes)


def densenet(num_classes: int, growth: int = 16) -> nn.Module:
    """Three stages of four 3x3 layers, each of which reads all before it."""
    stages, channels = [nn.Sequential(nn.Conv2d(3, 2 * growth, 3, 1, 1, bias=False))], 2 * growth
    for stage in range(3):
        layers: list[nn.Module] = []
        for _ in range(4):
            layers.append(Dense(channels, growth))
            channels += growth
        if stage < 2:
            norm_relu = [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
            mix = nn.Conv2d(channels, channels // 2, 1, bias=False)
            layers += [*norm_relu, mix, nn.AvgPool2d(2)]
            channels //= 2
        stages.append(nn.Sequential(*layers))
    stages.append(nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True)))
    return classifier(stages, channels, num_classes)


def preactivation(num_classes: int) -> nn.Module:
    """Three stages of three blocks whose norms stand before the convolutions."""
    stages, channels = [nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False))], 16
    for width, stride in ((16, 1), (32, 2), (64, 2)):
        first = Preactivation(channels, width, stride)
        stages.append(nn.Sequential(first, *(Preactivation(width, width, 1) for _ in range(2))))
        channels = width
    stages.append(nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True)))
    return classifier(stages, channels, num_classes)


def conv_norm_relu(
    c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    convolution = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(c_out), nn.ReLU(inplace=True)]


def classifier(stages: list[nn.Sequential], channels: int, num_classes: int) -> nn.Module:
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*stages, *pool, nn.Linear(channels, num_classes))


class Inverted(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        hidden = 4 * c_in
        self.body = nn.Sequential(
            *conv_norm_relu(c_in, hidden, 1),
            *conv_norm_relu(hidden, hidden, 3, stride, groups=hidden),
            *conv_norm_relu(hidden, c_out, 1)[:2],
        )
        self.shortcut = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.shortcut else y


class Dense(nn.Module):
    def __init__(self, c_in: int, growth: int) -> None:
        super().__init__()
        self.norm, self.relu = nn.BatchNorm2d(c_in), nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(c_in, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.conv(self.relu(self.norm(x)))], 1)


class Preactivation(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.BatchNorm2d(c_in), nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.project = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if c_in != c_out else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.norm1(x))
        shortcut = x if self.project is None else self.project(y)
        result: Tensor = self.conv2(self.relu(self.norm2(self.conv1(y)))) + shortcut
        return result
