"""Families of networks as others write them, small: what each does to channels is in its name."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Residual(nn.Module):
    """A block that adds what its layers compute."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.layers(x))


class Pooled(nn.Module):
    """The mean over all pixels, and a linear layer."""

    def __init__(self, channels: int, num_classes: int = 10) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.flatten(2).mean(2))  # type: ignore[no-any-return]


def grouped_convolutions() -> nn.Module:
    """ResNeXt: 4 groups of 3 channels; one that doubles them; a depthwise one that does."""

    def block() -> nn.Module:
        return Residual(
            nn.Conv2d(10, 12, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 12, 3, padding=1, groups=4), nn.BatchNorm2d(12), nn.ReLU(),
            nn.Conv2d(12, 10, 1, bias=False), nn.BatchNorm2d(10),
        )  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(3, 10, 3, padding=1), nn.BatchNorm2d(10), nn.ReLU(),
        nn.Sequential(block(), block()),
        nn.Conv2d(10, 8, 1), nn.BatchNorm2d(8), nn.SiLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=4), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1, groups=16), nn.BatchNorm2d(32), nn.ReLU(),
        Pooled(32),
    )  # fmt: skip


class NormAct(nn.BatchNorm2d):
    """timm's BatchNormAct2d: a batch norm of another class, with the activation inside."""

    def __init__(self, channels: int, act: nn.Module) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))  # type: ignore[no-any-return]


class Scaled(nn.Module):
    """A norm of nobody's class: a scale and a shift for each channel."""

    offset: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels).view(1, -1, 1, 1))
        self.register_buffer("offset", torch.linspace(-0.3, 0.3, channels).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gain + self.offset


def norms_with_activations() -> nn.Module:
    """Of which two are not zero at zero; one of these stands behind a depthwise convolution."""
    return nn.Sequential(
        nn.Conv2d(3, 10, 3, padding=1, bias=False), NormAct(10, nn.ReLU(inplace=True)),
        nn.Sequential(
            Residual(
                nn.Conv2d(10, 12, 1), NormAct(12, nn.Softplus()), nn.Conv2d(12, 10, 1), Scaled(10)
            ),
            Residual(
                nn.Conv2d(10, 12, 1, bias=False), NormAct(12, nn.SiLU()),
                nn.Conv2d(12, 12, 3, padding=1, groups=12, bias=False), NormAct(12, nn.Sigmoid()),
                nn.Conv2d(12, 10, 1, bias=False), NormAct(10, nn.Identity()),
            ),
        ),
        Pooled(10),
    )  # fmt: skip


class ScaledStdConv(nn.Conv2d):
    """NF-ResNet: each filter is standardised over its inputs, and scaled."""

    def __init__(self, c_in: int, c_out: int, kernel: int = 3) -> None:
        super().__init__(c_in, c_out, kernel, padding=kernel // 2)
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, c_out).view(-1, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.filters(self.weight), self.bias, self.stride, self.padding)

    def filters(self, weight: Tensor) -> Tensor:
        variance, mean = torch.var_mean(weight, (1, 2, 3), keepdim=True, correction=0)
        return self.gain * (weight - mean) / (variance + 1e-4).sqrt() * 0.2


def standardised_convolutions() -> nn.Module:
    def block() -> nn.Module:
        return Residual(ScaledStdConv(10, 12, 1), nn.ReLU(), ScaledStdConv(12, 10))

    return nn.Sequential(
        ScaledStdConv(3, 10), nn.ReLU(), nn.Sequential(block(), block()), ScaledStdConv(10, 8, 1),
        Pooled(8),
    )  # fmt: skip


def group_norms() -> nn.Module:
    def block() -> nn.Module:
        return Residual(
            nn.Conv2d(12, 16, 1), nn.GroupNorm(4, 16), nn.ReLU(),
            nn.Conv2d(16, 12, 3, padding=1), nn.GroupNorm(6, 12),
        )  # fmt: skip

    return nn.Sequential(
        nn.Conv2d(3, 14, 3, padding=1), nn.BatchNorm2d(14), nn.ReLU(), nn.Conv2d(14, 12, 1),
        nn.Sequential(block(), block()), nn.Conv2d(12, 10, 1), nn.GroupNorm(1, 10), Pooled(10),
    )  # fmt: skip


class ChannelsLast(nn.Module):
    """ConvNeXt: linear layers on the last axis, behind a permutation."""

    def __init__(self, channels: int, norm: nn.Module) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm = norm
        self.fc1, self.fc2 = nn.Linear(channels, 24), nn.Linear(24, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.fc2(F.gelu(self.fc1(y)))
        return x + y.permute(0, 3, 1, 2)  # type: ignore[no-any-return]


def permuted_axes(norm: bool = False) -> nn.Module:
    """With a layer norm, which mixes channels, only the hidden layers are free."""
    norms = [nn.LayerNorm(10) if norm else nn.Identity() for _ in range(2)]
    return nn.Sequential(
        nn.Conv2d(3, 10, 2, 2), nn.Sequential(*(ChannelsLast(10, each) for each in norms)),
        nn.Conv2d(10, 8, 1), nn.BatchNorm2d(8), nn.ReLU(), Pooled(8),
    )  # fmt: skip


class ShuffleBlock(nn.Module):
    """ShuffleNet V2: half of the channels pass through, then both halves are interleaved."""

    def __init__(self, channels: int, shuffle: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.shuffle, half = shuffle, channels // 2
        self.branch = nn.Sequential(
            nn.Conv2d(half, half + 2, 1, bias=False), nn.BatchNorm2d(half + 2), nn.ReLU(),
            nn.Conv2d(half + 2, half + 2, 3, padding=1, groups=half + 2), nn.BatchNorm2d(half + 2),
            nn.Conv2d(half + 2, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        return self.shuffle(torch.cat((left, self.branch(right)), 1))


def shuffled(x: Tensor) -> Tensor:
    b, c, h, w = x.size()
    return x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, -1, h, w)


def shuffled_by_size(x: Tensor) -> Tensor:
    b, c, h, w = x.size()
    return x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, c, h, w)


def channel_shuffles() -> nn.Module:
    ways = shuffled, shuffled_by_size, nn.ChannelShuffle(2)
    return nn.Sequential(
        nn.Conv2d(3, 10, 3, 2, 1), nn.ReLU(), nn.Conv2d(10, 20, 3, padding=1, bias=False),
        nn.BatchNorm2d(20), nn.ReLU(), nn.Sequential(*(ShuffleBlock(20, way) for way in ways)),
        nn.Conv2d(20, 12, 1), nn.ReLU(), Pooled(12),
    )  # fmt: skip


class Scales(nn.Module):
    """Res2Net: the channels in groups, each with a convolution that sees the one before."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.width = channels // 3
        self.conv = nn.Conv2d(channels, channels, 1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.convs = nn.ModuleList(nn.Conv2d(self.width, self.width, 3, 1, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        parts = torch.split(F.relu(self.bn(self.conv(x))), self.width, 1)
        one = self.convs[0](parts[0])
        two = self.convs[1](parts[1] + one)
        return F.relu(x + torch.cat([one, two, parts[2]], 1))


class Selected(nn.Module):
    """Selective kernels: two paths, weighed by a softmax over both."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.paths = nn.ModuleList(nn.Conv2d(channels, 8, k, padding=k // 2) for k in (1, 3))
        self.reduce, self.select = nn.Conv2d(8, 6, 1), nn.Conv2d(6, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.stack([path(x) for path in self.paths], dim=1)
        y = self.select(F.relu(self.reduce(x.sum(1).mean((2, 3), keepdim=True))))
        b, c, h, w = y.shape
        selected: Tensor = x * y.view(b, 2, c // 2, h, w).softmax(1)
        return selected.sum(dim=1)


class Ghost(nn.Module):
    """GhostNet: cheap features beside the others, of which some too many are made."""

    def __init__(self, channels: int, wanted: int) -> None:
        super().__init__()
        self.wanted = wanted
        half = (wanted + 1) // 2
        self.primary = nn.Sequential(nn.Conv2d(channels, half, 1), nn.BatchNorm2d(half), nn.ReLU())
        self.cheap = nn.Conv2d(half, half, 3, padding=1, groups=half)

    def forward(self, x: Tensor) -> Tensor:
        first = self.primary(x)
        both = torch.cat([first, self.cheap(first)], dim=1)
        return both[:, : self.wanted, :, :]


def split_channels() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU(), Scales(12), Scales(12),
        Selected(12), nn.ReLU(), Ghost(8, 9), nn.Conv2d(9, 8, 1), nn.ReLU(), Pooled(8),
    )  # fmt: skip


class UNet(nn.Module):
    """One image to another: it goes down, and up by a transposed convolution and by an upsampling,
    beside which the earlier tensors are concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(12, 14, 3, 2, 1), nn.BatchNorm2d(14), nn.ReLU())
        self.up = nn.ConvTranspose2d(14, 10, 2, 2)
        self.norm = nn.BatchNorm2d(10)
        self.four = nn.Sequential(nn.Conv2d(22, 10, 3, padding=1), nn.ReLU(), nn.Upsample(None, 2))
        self.last = nn.Conv2d(18, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        one = self.one(x)
        two = self.two(one)
        up = F.relu(self.norm(self.up(self.three(two))))
        return self.last(torch.cat([self.four(torch.cat([up, two], 1)), one], 1))  # type: ignore[no-any-return]


def convolutions_along(axes: int) -> nn.Module:
    """On signals (1) or volumes (3)."""
    conv, norm = getattr(nn, f"Conv{axes}d"), getattr(nn, f"BatchNorm{axes}d")
    pool = getattr(nn, f"MaxPool{axes}d")

    def block() -> nn.Module:
        return Residual(
            conv(10, 12, 3, padding=1, bias=False), norm(12), nn.ReLU(),
            conv(12, 12, 3, padding=1, groups=12), norm(12), nn.Sigmoid(),
            conv(12, 10, 1, bias=False), norm(10),
        )  # fmt: skip

    return nn.Sequential(
        conv(3, 10, 3, padding=1), norm(10), nn.ReLU(), pool(2), nn.Sequential(block(), block()),
        conv(10, 8, 1), nn.ReLU(), Pooled(8),
    )  # fmt: skip


FAMILIES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "grouped convolutions": (grouped_convolutions, (3, 8, 8)),
    "norms with activations": (norms_with_activations, (3, 8, 8)),
    "standardised convolutions": (standardised_convolutions, (3, 8, 8)),
    "group norms": (group_norms, (3, 8, 8)),
    "permuted axes": (permuted_axes, (3, 8, 8)),
    "channel shuffles": (channel_shuffles, (3, 8, 8)),
    "split channels": (split_channels, (3, 8, 8)),
    "u-net": (UNet, (3, 8, 8)),
    "signals": (lambda: convolutions_along(1), (3, 16)),
    "volumes": (lambda: convolutions_along(3), (3, 6, 6, 6)),
}
