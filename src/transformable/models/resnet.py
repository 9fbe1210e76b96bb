"""ResNets for CIFAR (three stages), in the layout of the paper's authors, and for ImageNet (four),
in that of torchvision, so that its weights fit.

On CIFAR a shortcut of stride 2 averages 2x2 pixels before its 1x1 convolution and has no batch
norm; on ImageNet the convolution has the stride, and a norm. `projection_norm` says whether the
shortcuts that `residual="project"` adds have one: always but in the CIFAR bottleneck, where the
shortcuts of stride 1 lose theirs, too.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from ..layers import initialise

__all__ = ["Add", "BasicBlock", "Bottleneck", "ResNet"]


def conv(c_in: int, c_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, bias=False)


class Add(nn.Module):
    """The residual add of a block, as a module, so that it has a name and can be replaced."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a + b


def shortcut(c_in: int, c_out: int, stride: int, norm: bool) -> nn.Module:
    if stride == 1 and c_in == c_out:
        return nn.Identity()
    if norm:
        return nn.Sequential(conv(c_in, c_out, 1, stride), nn.BatchNorm2d(c_out))
    # ceil: like the strided 3x3 convolution beside it, also when the size is odd
    pool = nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
    return nn.Sequential(pool, conv(c_in, c_out, 1))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions."""

    def __init__(
        self, c_in: int, planes: int, stride: int, norm_shortcut: bool, projection_norm: bool
    ) -> None:
        super().__init__()
        self.projection_norm = projection_norm
        self.conv1 = conv(c_in, planes, 3, stride)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3)
        self.bn2 = nn.BatchNorm2d(planes)
        self.shortcut = shortcut(c_in, planes, stride, norm_shortcut or stride == 1)
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return F.relu(self.add(out, self.shortcut(x)))


class Bottleneck(nn.Module):
    """1x1 to `planes`, 3x3, 1x1 to four times as many."""

    def __init__(
        self, c_in: int, planes: int, stride: int, norm_shortcut: bool, projection_norm: bool
    ) -> None:
        super().__init__()
        self.projection_norm = projection_norm
        self.conv1 = conv(c_in, planes, 1)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = conv(planes, planes, 3, stride)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = conv(planes, 4 * planes, 1)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.shortcut = shortcut(c_in, 4 * planes, stride, norm_shortcut or stride == 1)
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = F.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return F.relu(self.add(out, self.shortcut(x)))


class ResNet(nn.Module):
    """A stem, stages of blocks, global average pooling, a linear classifier."""

    def __init__(self, stem: nn.Sequential, stages: Sequence[nn.Sequential], classifier: nn.Linear):
        super().__init__()
        self.stem = stem
        self.stages = nn.Sequential(*stages)
        self.classifier = classifier
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stages(self.stem(x))
        return self.classifier(x.mean((2, 3)))  # type: ignore[no-any-return]


def cifar_resnet(blocks: int, num_classes: int, in_channels: int, *, bottleneck: bool) -> ResNet:
    stem = nn.Sequential(conv(in_channels, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
    norms = {"norm_shortcut": False, "projection_norm": not bottleneck}
    return _resnet(stem, (blocks,) * 3, (16, 32, 64), num_classes, bottleneck=bottleneck, **norms)


def imagenet_resnet(
    blocks: Sequence[int], num_classes: int, in_channels: int, *, bottleneck: bool
) -> ResNet:
    stem = nn.Sequential(
        conv(in_channels, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    )
    norms = {"norm_shortcut": True, "projection_norm": True}
    return _resnet(stem, blocks, (64, 128, 256, 512), num_classes, bottleneck=bottleneck, **norms)


def _resnet(
    stem: nn.Sequential,
    blocks: Sequence[int],
    planes: Sequence[int],
    num_classes: int,
    *,
    bottleneck: bool,
    norm_shortcut: bool,
    projection_norm: bool,
) -> ResNet:
    """Stages of so many blocks and planes; every stage but the first halves the resolution."""
    block, expansion = (Bottleneck, 4) if bottleneck else (BasicBlock, 1)
    stages: list[nn.Sequential] = []
    c_in = planes[0]
    for count, width in zip(blocks, planes, strict=True):
        layers = []
        for i in range(count):
            stride = 2 if stages and i == 0 else 1
            layers.append(block(c_in, width, stride, norm_shortcut, projection_norm))
            c_in = expansion * width
        stages.append(nn.Sequential(*layers))
    return ResNet(stem, stages, nn.Linear(c_in, num_classes))
