"""Prune a network that somebody else trained, from its own code and its own weights file.

The weights are those of resnet20 in the public repository akamaster/pytorch_resnet_cifar10, which
was trained on images normalised with ImageNet's mean and deviation:

    tas prune --model examples/pretrained.py:resnet20 --teacher resnet20-12fca82f.th \\
        --data cifar10 --data-dir DIR --mean 0.485 0.456 0.406 --std 0.229 0.224 0.225 --budget 0.5
"""

import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.stride, self.more = stride, c_out - c_in

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.more:  # a shortcut without weights: every other pixel, new channels of zeros
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, *[self.more // 2] * 2))
        return F.relu(y + x)


class ResNet(nn.Module):
    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        self.layer1 = self._stage(16, 16, 1, blocks)
        self.layer2 = self._stage(16, 32, 2, blocks)
        self.layer3 = self._stage(32, 64, 2, blocks)
        self.linear = nn.Linear(64, 10)

    def _stage(self, c_in: int, c_out: int, stride: int, blocks: int) -> nn.Sequential:
        rest = [Block(c_out, c_out, 1) for _ in range(blocks - 1)]
        return nn.Sequential(Block(c_in, c_out, stride), *rest)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        logits: Tensor = self.linear(x.mean((2, 3)))
        return logits


def resnet20() -> nn.Module:
    return ResNet(3)
