"""What a module of an unknown class does to channels, found by running it."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..resizing import GROUPED, resize
from .network_graph import in_mode

__all__ = ["children_behind_norm", "keeps_channels_apart", "makes_channels_by_itself", "own_class"]


def keeps_channels_apart(module: nn.Module, shape: tuple[int, ...], unit: int = 1) -> bool:
    """Whether each channel of the output comes from the same channel of the input and from what
    the module stores for that channel, so that it is a norm or an activation whatever its class.

    With a `unit` above 1, the same for blocks of so many channels. `shape` is that of the input.

    >>> keeps_channels_apart(nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 3))
    True
    >>> keeps_channels_apart(nn.GroupNorm(2, 4), (2, 4, 3, 3)), keeps_channels_apart(
    ...     nn.GroupNorm(2, 4), (2, 4, 3, 3), unit=2
    ... )
    (False, True)
    """
    size = shape[1]
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.numel() > 1]
    if size % unit or any(t.numel() != size or size not in t.shape for t in tensors):
        return False
    # every second block, from the last to the first: a subset in another order
    blocks = range(size // unit)[::-2]
    kept = [block * unit + i for block in blocks for i in range(unit)]

    def same(module: nn.Module, x: Tensor) -> bool:
        cut = copy.deepcopy(module)
        if tensors:
            resize(cut, "norm", kept, kept)
        return _close(module(x)[:, kept], cut(x[:, kept]))

    return _holds_in_both_modes(same, module, shape)


def makes_channels_by_itself(module: nn.Module, kind: str, shape: tuple[int, ...]) -> bool:
    """Whether a layer of a class derived from a convolution or linear layer computes the same
    outputs if it has fewer of them, and can do with fewer inputs."""

    def same(module: nn.Module, x: Tensor) -> bool:
        outputs = module(x)
        outs, ins = (list(range(size))[::-2] for size in (outputs.shape[1], x.shape[1]))
        every = list(range(x.shape[1]))
        if kind in GROUPED:
            return keeps_groups_apart(module, x, outputs)
        narrow, narrower = copy.deepcopy(module), copy.deepcopy(module)
        resize(narrow, kind, outs, every)
        resize(narrower, kind, outs, ins)
        fits = narrower(x[:, ins]).shape == outputs[:, outs].shape
        return fits and _close(outputs[:, outs], narrow(x))

    def keeps_groups_apart(module: nn.Module, x: Tensor, outputs: Tensor) -> bool:
        count = int(module.groups)  # type: ignore[call-overload]
        groups = range(count)[::-2]
        ins, outs = (
            [group * size // count + i for group in groups for i in range(size // count)]
            for size in (x.shape[1], outputs.shape[1])
        )
        narrow = copy.deepcopy(module)
        resize(narrow, kind, outs, ins)
        return _close(outputs[:, outs], narrow(x[:, ins]))

    return _holds_in_both_modes(same, module, shape)


def children_behind_norm(norm: nn.Module, shape: tuple[int, ...]) -> list[nn.Module] | None:
    """The children of a class derived from one of torch's norms, if it is that norm with the children
    behind it, one after the other; None if it is something else.

    >>> children_behind_norm(nn.BatchNorm2d(4), (2, 4, 3, 3))
    []
    """
    base = own_class(norm)
    if type(norm) is base:
        return []

    def same(norm: nn.Module, x: Tensor) -> bool:
        twin = copy.deepcopy(norm)
        plain = base.forward(twin, x)  # type: ignore[operator]
        for child in twin.children():
            plain = child(plain)
        return _close(norm(x), plain)

    return list(norm.children()) if _holds_in_both_modes(same, norm, shape) else None


def own_class(module: nn.Module) -> type[nn.Module]:
    """The class of torch's own that a module is of, or is derived from."""
    return next(kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn."))


def _holds_in_both_modes(
    test: Callable[[nn.Module, Tensor], bool], module: nn.Module, shape: tuple[int, ...]
) -> bool:
    """Whether the test holds in evaluation, and in training unless that is random."""
    like = next((t for t in (*module.parameters(), *module.buffers())), torch.empty(0))
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(like.device).double()
    twin = copy.deepcopy(module).double()
    try:
        with torch.no_grad(), torch.random.fork_rng():
            with in_mode(twin, training=False):
                holds = test(twin, x)
            with in_mode(twin, training=True):
                return holds and (not _close(twin(x), twin(x)) or test(twin, x))
    except Exception:  # a user's forward may raise anything
        return False


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, atol=1e-9)
