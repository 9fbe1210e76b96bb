"""A supernet computed literally: slices, one batch norm a candidate, pooling, sums."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transformable.supernet.candidate_norms import CandidateNorms
from transformable.supernet.sampling import Draw
from transformable.supernet.supernet import SuperNet


def cwi(x: Tensor, channels: int, align: str) -> Tensor:
    """Channel-wise interpolation by torch's own operations."""
    n, c, h, w = x.shape
    if align == "pool":
        return F.adaptive_avg_pool3d(x.unsqueeze(1), (channels, h, w)).squeeze(1)
    if align == "pad":
        return F.pad(x, (0, 0, 0, 0, 0, channels - c))
    rows = x.permute(0, 2, 3, 1).reshape(n, h * w, c)
    return F.interpolate(rows, channels, mode="linear").view(n, h, w, channels).permute(0, 3, 1, 2)


class Literal:
    """A CIFAR ResNet, computed as the paper writes it."""

    def __init__(self, net: SuperNet, draw: Draw) -> None:
        self.net, self.draw = net, draw

    def layer(self, name: str, x: Tensor) -> Tensor:
        net = self.net
        conv = net.body.get_submodule(f"{name}.layer")
        assert isinstance(conv, nn.Conv2d)
        weight = conv.weight[:, : x.shape[1]]
        y = F.conv2d(x, weight, None, conv.stride, weight.shape[-1] // 2)
        choice = net.rewritten.layers[name].choice
        assert choice
        row = list(net.space.widths).index(choice)
        drawn = zip(self.draw.candidates[row].tolist(), self.draw.weights[row], strict=True)
        used = [(j, w) for j, w in drawn if w > 0]
        widths = net.space.widths[choice]
        widest = max(widths[j] for j, _ in used)
        [group] = [g for g in net.groups if isinstance(g, CandidateNorms) and name in g.names]
        total = torch.zeros((), dtype=x.dtype)
        for j, w in used:
            part = y[:, : widths[j]]
            if group.scale is not None and group.shift is not None:
                i = group.names.index(name)
                scale, shift = group.scale[i, j, : widths[j]], group.shift[i, j, : widths[j]]
                part = F.batch_norm(part, None, None, scale, shift, training=True)
            total = total + w * cwi(part, widest, net.align)
        return total

    def shortcut(self, block: str, x: Tensor) -> Tensor:
        """Nothing, a convolution, or one behind a pooling."""
        for i, pool in ((0, 1), (1, 2)):
            name = f"{block}.shortcut.{i}"
            if name in self.net.rewritten.layers:
                return self.layer(name, F.avg_pool2d(x, pool))
        return x

    def __call__(self, x: Tensor) -> Tensor:
        net = self.net
        x = F.relu(self.layer("stem.0", x))
        for s, stage in enumerate(net.space.depths):
            outputs = []
            for b in range(net.space.full.depths[stage]):
                block = f"{stage}.{b}"
                layers = net.rewritten.layers
                first, *rest = (n for n in layers if n.startswith(f"{block}.conv"))
                out = self.layer(first, x)
                for name in rest:
                    out = self.layer(name, F.relu(out))
                x = F.relu(add(out, self.shortcut(block, x)))
                outputs.append(x)
            widest = max(o.shape[1] for o in outputs)
            depths = net.space.depths[stage]
            x = torch.zeros((), dtype=x.dtype)
            for i, depth in enumerate(depths):
                x = x + self.draw.depths[s, i] * cwi(outputs[depth - 1], widest, net.align)
        classifier = net.body.get_submodule("classifier")
        assert isinstance(classifier, nn.Linear)
        return F.linear(x.mean((2, 3)), classifier.weight[:, : x.shape[1]], classifier.bias)


def add(a: Tensor, b: Tensor) -> Tensor:
    """The first channels are added, the rest of the wider one passes."""
    c = min(a.shape[1], b.shape[1])
    wide = a if a.shape[1] > c else b
    return torch.cat([a[:, :c] + b[:, :c], wide[:, c:]], 1)
