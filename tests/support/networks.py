"""Networks as users write them, none of which knows of this project."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from support.families import FAMILIES
from transformable import Space
from transformable.models.mobilenet import InvertedResidual, conv_norm


class PaddedBlock(nn.Module):
    """A CIFAR block whose shortcut, where a stage begins, drops pixels and pads channels."""

    def __init__(self, c_in: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.pad = (planes - c_in) // 2
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.stride == 2:
            x = F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad), "constant", 0)
        out += x
        return F.relu(out)


class PaddedResNet(nn.Module):
    def __init__(self, blocks: int = 3, num_classes: int = 10, drop: float = 0.0) -> None:
        super().__init__()
        self.drop = drop
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = self._layer(16, 16, 1, blocks)
        self.layer2 = self._layer(16, 32, 2, blocks)
        self.layer3 = self._layer(32, 64, 2, blocks)
        self.linear = nn.Linear(64, num_classes)

    def _layer(self, c_in: int, planes: int, stride: int, blocks: int) -> nn.Sequential:
        rest = [PaddedBlock(planes, planes, 1) for _ in range(blocks - 1)]
        return nn.Sequential(PaddedBlock(c_in, planes, stride), *rest)

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        out = F.avg_pool2d(out, out.size()[3])
        out = F.dropout(out, self.drop, training=self.training)
        out = out.view(out.size(0), -1)
        return self.linear(out)  # type: ignore[no-any-return]


class DenseLayer(nn.Module):
    def __init__(self, c_in: int, growth: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, 4 * growth, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv1(F.relu(self.bn1(x)))
        out = self.conv2(F.relu(self.bn2(out)))
        return torch.cat([x, out], 1)


class DenseNet(nn.Module):
    def __init__(self, growth: int = 6, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 2 * growth, 3, padding=1, bias=False)
        c = 2 * growth
        self.dense1 = nn.Sequential(*(DenseLayer(c + i * growth, growth) for i in range(3)))
        c += 3 * growth
        self.transition = nn.Sequential(
            nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2)
        )
        c //= 2
        self.dense2 = nn.Sequential(*(DenseLayer(c + i * growth, growth) for i in range(2)))
        c += 2 * growth
        self.norm = nn.BatchNorm2d(c)
        self.classifier = nn.Linear(c, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.dense2(self.transition(self.dense1(self.stem(x))))
        x = F.adaptive_avg_pool2d(F.relu(self.norm(x)), 1)
        return self.classifier(torch.flatten(x, 1))  # type: ignore[no-any-return]


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, hidden)
        self.fc2 = nn.Linear(hidden, channels)

    def forward(self, x: Tensor) -> Tensor:
        b, c, _, _ = x.size()
        y = x.mean((2, 3))
        y = torch.sigmoid(self.fc2(F.relu(self.fc1(y)))).view(b, c, 1, 1)
        return x * y


class SEBlock(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.shortcut = nn.Sequential()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out)
            )
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.depthwise = nn.Conv2d(c_out, c_out, 3, 1, 1, groups=c_out)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 1)
        self.bn3 = nn.BatchNorm2d(c_out)
        self.act = nn.PReLU(c_out)
        self.se = SqueezeExcite(c_out, max(4, c_out // 4))

    def forward(self, x: Tensor) -> Tensor:
        identity = self.shortcut(x)
        out = self.act(self.bn1(self.conv1(x)))
        out = F.hardswish(self.bn2(self.depthwise(out)))
        out = self.se(self.bn3(self.conv2(out)))
        return F.relu(out + identity)


class SENet(nn.Module):
    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.SiLU())
        self.blocks = nn.ModuleList([SEBlock(16, 16, 1), SEBlock(16, 16, 1), SEBlock(16, 16, 1)])
        self.down = SEBlock(16, 24, 2)
        self.head = nn.Linear(24 * 4, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = F.adaptive_avg_pool2d(self.down(x), 2)
        return self.head(x.flatten(1))  # type: ignore[no-any-return]


class PreActBlock(nn.Module):
    """Batch norms stand before the convolutions, on the stream."""

    def __init__(self, c_in: int, c_out: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.project = nn.Conv2d(c_in, c_out, 1, stride, bias=False) if c_in != c_out else None

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(x))
        shortcut = x if self.project is None else self.project(out)
        return self.conv2(F.relu(self.bn2(self.conv1(out)))) + shortcut  # type: ignore[no-any-return]


class PreActNet(nn.Module):
    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 12, 3, 1, 1, bias=False)
        self.stage1 = nn.Sequential(PreActBlock(12, 12, 1), PreActBlock(12, 12, 1))
        self.stage2 = nn.Sequential(PreActBlock(12, 20, 2), PreActBlock(20, 20, 1))
        self.norm = nn.BatchNorm2d(20)
        self.fc = nn.Linear(20, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stage2(self.stage1(self.stem(x)))
        return self.fc(F.relu(self.norm(x)).mean([2, 3]))  # type: ignore[no-any-return]


class VGG(nn.Module):
    """No residuals: a plain chain with a hidden linear layer behind the flattened pixels."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for c_in, c_out in ((3, 8), (8, 16), (16, 20)):
            layers += [
                nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out),
                nn.ReLU(), nn.MaxPool2d(2),
            ]  # fmt: skip
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(20 * 4, 32), nn.ReLU(), nn.Linear(32, num_classes)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        return self.classifier(x.reshape(x.shape[0], -1))  # type: ignore[no-any-return]


class Branches(nn.Module):
    """Inception-like branches, concatenated twice and added."""

    def __init__(self) -> None:
        super().__init__()
        self.a1, self.a2 = nn.Conv2d(3, 6, 1), nn.Conv2d(3, 5, 3, padding=1)
        self.b1, self.b2 = nn.Conv2d(11, 6, 1), nn.Conv2d(11, 5, 3, padding=1)
        self.norm = nn.BatchNorm2d(11)
        self.up = nn.Upsample(scale_factor=2)
        self.c = nn.Conv2d(11 + 4, 7, 3, padding=1)
        self.skip = nn.Conv2d(3, 4, 3, 2, 1)
        self.fc = nn.Linear(7, 10)

    def forward(self, x: Tensor) -> Tensor:
        a = F.relu(torch.cat([self.a1(x), self.a2(x)], dim=1))
        b = torch.cat((self.b1(a), self.b2(a)), dim=1)
        y = F.relu(self.norm(a + b))
        y = torch.cat([y, self.up(self.skip(x))], dim=-3)
        return self.fc(self.c(y).mean(-1).mean(-1))  # type: ignore[no-any-return]


class ReusedReluBlock(nn.Module):
    """A block whose one relu module is called twice, in place, as torchvision writes it."""

    def __init__(self, c_in: int, planes: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = (
            nn.Sequential(nn.Conv2d(c_in, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
            if stride > 1
            else None
        )

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)  # type: ignore[no-any-return]


class ReusedReluResNet(nn.Module):
    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(*(ReusedReluBlock(8, 8, 1) for _ in range(3)))
        self.layer2 = nn.Sequential(ReusedReluBlock(8, 12, 2), ReusedReluBlock(12, 12, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(12, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(self.avgpool(x).flatten(1))  # type: ignore[no-any-return]


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "reused relu": (ReusedReluResNet, (3, 16, 16)),
    "padded resnet": (PaddedResNet, (3, 16, 16)),
    "densenet": (DenseNet, (3, 16, 16)),
    "squeeze-and-excite": (SENet, (3, 16, 16)),
    "pre-activation": (PreActNet, (3, 16, 16)),
    "vgg": (VGG, (3, 16, 16)),
    "branches": (Branches, (3, 16, 16)),
    **FAMILIES,
}


def small_mobilenet() -> nn.Module:
    """MobileNetV2 with few and narrow blocks, for what takes long with all of them."""
    return nn.Sequential(
        conv_norm(3, 8, 3, stride=2),
        nn.Sequential(*(InvertedResidual(8, 8, 1, 1) for _ in range(2))),
        InvertedResidual(8, 12, 2, 4),
        nn.Sequential(*(InvertedResidual(12, 12, 1, 4) for _ in range(3))),
        conv_norm(12, 48, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(48, 10),
    )


AND_MOBILENET = {**NETWORKS, "small mobilenet": (small_mobilenet, (3, 16, 16))}


CLASSIFIERS = [name for name, (_, shape) in NETWORKS.items() if len(shape) == 3 and name != "u-net"]
"""Those that give an answer for each image."""


def few_shapes(space: Space, shapes: int) -> Space:
    """The same space with so few candidates that all shapes can be gone through."""
    candidates = space.candidates
    order = sorted(candidates, key=lambda name: (name[::-1], name))
    for name in order:
        if math.prod(map(len, candidates.values())) <= shapes:
            break
        candidates[name] = candidates[name][-1:]
    return replace(
        space,
        widths={name: candidates[name] for name in space.widths},
        depths={name: candidates[name] for name in space.depths},
    )


def randomise(network: nn.Module, seed: int = 0) -> nn.Module:
    """Batch norms that do something, so that a channel in the wrong place shows."""
    generator = torch.Generator().manual_seed(seed)
    for module in network.modules():
        if isinstance(module, nn.GroupNorm):
            module.weight.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.normal_(0, 0.3, generator=generator)
        if isinstance(module, _BatchNorm):
            assert module.running_mean is not None
            assert module.running_var is not None
            for tensor in (module.weight, module.running_var):
                tensor.data.uniform_(0.5, 1.5, generator=generator)
            for tensor in (module.bias, module.running_mean):
                tensor.data.normal_(0, 0.3, generator=generator)
    return network
