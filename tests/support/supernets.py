"""One shape as a draw of a supernet, and networks with parts that are hard to rewrite."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import transformable as tas
from transformable.supernet.sampling import Draw


def draw_of(net: tas.SuperNet, shape: tas.Shape) -> Draw:
    """The draw that has this shape and nothing else."""
    space = net.space
    widths = [[sizes.index(shape.widths[n])] for n, sizes in space.widths.items()]
    longest = net.beta.shape[1]
    depths = torch.zeros(len(space.depths), longest, dtype=net.beta.dtype)
    for row, (name, sizes) in enumerate(space.depths.items()):
        depths[row, sizes.index(shape.depths[name])] = 1
    return Draw(torch.tensor(widths), torch.ones(len(widths), 1, dtype=net.alpha.dtype), depths)


class Residual(nn.Module):
    """A block that ends in its add: the relu is somebody else's."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)  # type: ignore[no-any-return]


def conv(c_in: int, kernel: int = 3) -> nn.Conv2d:
    return nn.Conv2d(c_in, 8, kernel, padding=kernel // 2, bias=False)


class ReluBehindTheStage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks = (Residual(nn.Sequential(conv(8), nn.BatchNorm2d(8))) for _ in range(3))
        self.stem, self.stage, self.head = conv(3), nn.Sequential(*blocks), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stage(self.stem(x)))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class ReluFirst(nn.Module):
    """Blocks in the order relu, convolution, norm; the relu is in place."""

    def __init__(self) -> None:
        super().__init__()
        blocks = (nn.Sequential(nn.ReLU(True), conv(8), nn.BatchNorm2d(8)) for _ in range(3))
        self.stem, self.stage, self.head = conv(3), nn.Sequential(*blocks), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stage(self.stem(x)))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Odds(nn.Module):
    """A learnt activation, a scaled add, a loose parameter, a map of one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.act, self.one, self.two = conv(3), nn.PReLU(), conv(8), conv(8)
        self.norm, self.spatial = nn.BatchNorm2d(8), nn.Conv2d(8, 1, 1)
        self.offset, self.head = nn.Parameter(torch.full((1,), 0.3)), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(x))
        x = x.add(self.norm(self.one(x)), alpha=0.1).relu()
        x = F.relu(self.two(x) + self.offset)
        x = F.relu(x + self.spatial(x))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


ODD_NETWORKS = {
    "relu behind the stage": (ReluBehindTheStage, (3, 16, 16)),
    "relu first": (ReluFirst, (3, 16, 16)),
    "odds": (Odds, (3, 16, 16)),
}
