"""What a module of an unknown class does to channels, found by running it."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..layers import in_mode
from ..resizing import GROUPED, resize

__all__ = [
    "children_behind_norm",
    "hooks_only_observe",
    "keeps_channels_apart",
    "makes_channels_by_itself",
    "own_class",
    "standardises_inputs",
]


PIXELS = 16
"""Along each axis of the images that a convolution is run on, at most."""


def keeps_channels_apart(
    module: nn.Module, shape: tuple[int, ...], unit: int = 1, axis: int = 1
) -> bool:
    """Whether each channel of the output comes from the same channel of the input and from what
    the module stores for that channel, so that it is a norm or an activation whatever its class.

    With a `unit` above 1, the same for blocks of so many channels. `shape` is that of the input,
    which has its channels on the `axis`.

    >>> keeps_channels_apart(nn.InstanceNorm2d(4, affine=True), (2, 4, 3, 3))
    True
    >>> keeps_channels_apart(nn.GroupNorm(2, 4), (2, 4, 3, 3)), keeps_channels_apart(
    ...     nn.GroupNorm(2, 4), (2, 4, 3, 3), unit=2
    ... )
    (False, True)
    """
    size = shape[axis]
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
        return _close(_pick(module(x), axis, kept), cut(_pick(x, axis, kept)))

    return _holds_in_both_modes(same, module, shape)


def makes_channels_by_itself(module: nn.Module, kind: str, shape: tuple[int, ...]) -> bool:
    """Whether a layer of a class derived from a convolution or linear layer computes the same
    outputs if it has fewer of them, and can do with fewer inputs."""
    axis = len(shape) - 1 if kind == "linear" else 1

    def same(module: nn.Module, x: Tensor) -> bool:
        outputs = module(x)
        sizes = x.shape[axis], outputs.shape[axis]
        if kind in GROUPED:
            ins, outs = _every_second_group(int(module.groups), *sizes)  # type: ignore[arg-type]
            return _close(_pick(outputs, axis, outs), _narrow(module, kind, x, ins, outs))
        ins, outs = (list(range(size))[::-2] for size in sizes)
        every = list(range(sizes[0]))
        fits = _narrow(module, kind, x, ins, outs).shape == _pick(outputs, axis, outs).shape
        narrow = _narrow(module, kind, x, every, outs)
        return fits and _close(_pick(outputs, axis, outs), narrow)

    return _holds_in_both_modes(same, module, _fewer_pixels(shape))


def standardises_inputs(module: nn.Module, kind: str, shape: tuple[int, ...]) -> bool:
    """Whether such a layer computes something else without some inputs than with zeros for them, as
    a layer does that standardises each filter."""
    if kind in GROUPED:
        return False
    axis = len(shape) - 1 if kind == "linear" else 1
    ins = list(range(shape[axis]))[::-2]

    def same(module: nn.Module, x: Tensor) -> bool:
        zeros = torch.zeros_like(x).index_copy_(
            axis, torch.tensor(ins, device=x.device), _pick(x, axis, ins)
        )
        outputs = module(zeros)
        every = list(range(outputs.shape[axis]))
        return _close(outputs, _narrow(module, kind, x, ins, every))

    return not _holds_in_both_modes(same, module, _fewer_pixels(shape))


def _fewer_pixels(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A smaller image, which is enough to probe a convolution, in less time."""
    return (*shape[:2], *(min(size, PIXELS) for size in shape[2:])) if len(shape) > 3 else shape


def _every_second_group(count: int, *sizes: int) -> list[list[int]]:
    """The channels of every second group, from the last to the first, of tensors of these sizes."""
    groups = range(count)[::-2]
    return [[g * size // count + i for g in groups for i in range(size // count)] for size in sizes]


def _narrow(module: nn.Module, kind: str, x: Tensor, ins: list[int], outs: list[int]) -> Tensor:
    """What the module computes with these inputs and outputs only."""
    narrow = copy.deepcopy(module)
    resize(narrow, kind, outs, ins)
    result: Tensor = narrow(_pick(x, x.ndim - 1 if kind == "linear" else 1, ins))
    return result


def _pick(x: Tensor, axis: int, channels: list[int]) -> Tensor:
    return x.index_select(axis, torch.tensor(channels, device=x.device))


def children_behind_norm(norm: nn.Module, shape: tuple[int, ...]) -> list[nn.Module] | None:
    """The children of a class derived from one of torch's norms, if it is that norm with the
    children behind it, one after the other; None if it is something else.

    >>> children_behind_norm(nn.BatchNorm2d(4), (2, 4, 3, 3))
    []
    """
    base = own_class(norm)
    if type(norm) is base:
        return []

    def same(norm: nn.Module, x: Tensor) -> bool:
        twin = copy.deepcopy(norm)
        plain = base.forward(twin, x)
        for child in twin.children():
            plain = child(plain)
        return _close(norm(x), plain)

    return list(norm.children()) if _holds_in_both_modes(same, norm, shape) else None


def hooks_only_observe(module: nn.Module, shape: tuple[int, ...]) -> bool:
    """Whether a module computes the same without its hooks, whatever its parameters are.

    >>> layer = nn.Conv2d(4, 4, 1)
    >>> _ = layer.register_forward_hook(lambda module, inputs, output: print(end=""))
    >>> hooks_only_observe(layer, (2, 4, 3, 3))
    True
    """

    def same(module: nn.Module, x: Tensor) -> bool:
        bare = copy.deepcopy(module)
        bare._forward_hooks.clear()
        bare._forward_pre_hooks.clear()
        return _close(module(x.clone()), bare(x.clone()))

    return _holds_in_both_modes(same, module, shape)


def own_class(module: nn.Module) -> type[nn.Module]:
    """The class of torch's own that a module is of, or is derived from."""
    return next(kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.nn."))


def _holds_in_both_modes(
    test: Callable[[nn.Module, Tensor], bool], module: nn.Module, shape: tuple[int, ...]
) -> bool:
    """Whether the test holds in evaluation, and in training unless that is random."""
    like = next((t for t in (*module.parameters(), *module.buffers())), torch.empty(0))
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator).to(like.device).double()
    try:
        twin = copy.deepcopy(module).double()
        for parameter in twin.parameters():
            # initial values may hide what the module does, such as a factor of 0
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
        with torch.no_grad(), torch.random.fork_rng():
            with in_mode(twin, training=False):
                holds = test(twin, x)
            with in_mode(twin, training=True):
                return holds and (not _close(twin(x), twin(x)) or test(twin, x))
    except Exception:  # a user's forward may raise anything, and so may a copy of a user's hook
        return False


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, atol=1e-9)
