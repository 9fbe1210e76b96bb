"""MobileNetV2 (Sandler et al., 2018)."""

from torch import Tensor, nn

from ..layers import initialise
from .resnet import Add

__all__ = ["InvertedResidual", "MobileNetV2"]


def conv_norm(
    c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, relu: bool = True
) -> nn.Sequential:
    conv = nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(c_out), *([nn.ReLU6()] if relu else []))


class InvertedResidual(nn.Module):
    """A 1x1 convolution to more channels, a depthwise 3x3, a 1x1 to fewer, without activation."""

    def __init__(self, c_in: int, c_out: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = expansion * c_in
        self.expand = conv_norm(c_in, hidden, 1) if expansion > 1 else nn.Identity()
        self.depthwise = conv_norm(hidden, hidden, 3, stride, groups=hidden)
        self.project = conv_norm(hidden, c_out, 1, relu=False)
        self.shortcut = nn.Identity() if stride == 1 and c_in == c_out else None
        self.add = Add()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.project(self.depthwise(self.expand(x)))
        if self.shortcut is None:
            return out
        return self.add(out, self.shortcut(x))  # type: ignore[no-any-return]


class MobileNetV2(nn.Module):
    """A stem, seven stages of inverted residuals, a 1x1 head, a linear classifier."""

    def __init__(self, num_classes: int, in_channels: int) -> None:
        super().__init__()
        self.stem = conv_norm(in_channels, 32, 3, stride=2)
        stages, c_in = [], 32
        for expansion, c_out, blocks, stride in (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        ):
            layers = []
            for i in range(blocks):
                layers.append(InvertedResidual(c_in, c_out, stride if i == 0 else 1, expansion))
                c_in = c_out
            stages.append(nn.Sequential(*layers))
        self.stages = nn.Sequential(*stages)
        self.head = conv_norm(c_in, 1280, 1)
        self.dropout = nn.Dropout(0.2)
        self.classifier = nn.Linear(1280, num_classes)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.stages(self.stem(x)))
        return self.classifier(self.dropout(x.mean((2, 3))))  # type: ignore[no-any-return]
