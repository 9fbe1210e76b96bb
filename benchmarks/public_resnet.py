"""The ResNet-20 for CIFAR-10 of the public collection chenyaofo/pytorch-cifar-models, to be pruned.

Its weights (cifar10_resnet20.pth, 92.60 % on the test images) are read as they are:

    tas prune --model benchmarks/public_resnet.py:resnet20 --teacher cifar10_resnet20.pth \\
        --data cifar10 --data-dir DIR --mean 0.4914 0.4822 0.4465 --std 0.2023 0.1994 0.2010
"""

from torch import Tensor, nn


class Block(nn.Module):
    """Two convolutions and a shortcut, which is projected where the stage begins."""

    def __init__(self, c_in: int, c_out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride > 1:
            projection = nn.Conv2d(c_in, c_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(c_out))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + shortcut)  # type: ignore[no-any-return]


class ResNet(nn.Module):
    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Block(16, 16), Block(16, 16), Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32), Block(32, 32))
        self.layer3 = nn.Sequential(Block(32, 64, 2), Block(64, 64), Block(64, 64))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(64, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


def resnet20(num_classes: int) -> nn.Module:
    return ResNet(num_classes)
