"""Which layers must have the same width, and which cannot change theirs."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate, pairwise
from math import lcm

from .cuts import part
from .layouts import Concat, FixedWidth, LayerOutput, Layout, Placed, Repeated, StageOutput, Union

__all__ = ["WidthTies"]


class WidthTies:
    """Collects ties while a network is read; `settle` then makes the final layouts.

    Layers that share one width form a group. A group may also follow a layout (a gate is as wide
    as what it multiplies), or be frozen at full width for a reason. The unit of a group is how many
    channels stay together: it loses them in blocks of this size.

    `cuts` says between which outputs a layer is taken apart, each part with a width of its own.
    Cuts that are found to be necessary are collected in `wanted`.
    """

    def __init__(self, cuts: Mapping[str, frozenset[int]]) -> None:
        self.layouts: list[Layout] = []
        self.cuts = cuts
        self.wanted: dict[str, frozenset[int]] = {}
        self.part_of: dict[str, tuple[str, int]] = {}
        self.frozen: dict[str, str] = {}
        self._parent: dict[str, str] = {}
        self._follows: dict[str, int] = {}
        self._units: dict[str, int] = {}
        # a projection shortcut never names its group: the block's last convolution does
        self.shortcuts: set[str] = set()

    def new(self, layout: Layout) -> int:
        """Add a layout, and return its index."""
        self.layouts.append(layout)
        return len(self.layouts) - 1

    def want_cuts(self, layer: str, edges: Iterable[int]) -> None:
        """Note that the outputs of a layer, or of a part of one, have to be taken apart."""
        root = self.root(layer)
        for name in {root, *(n for n in self._parent if self.root(n) == root)}:
            whole, start = self.part_of.get(name, (name, 0))
            found = self.wanted.get(whole, self.cuts.get(whole, frozenset()))
            self.wanted[whole] = found | {start + edge for edge in edges}

    def root(self, layer: str) -> str:
        """The layer that stands for the group of this one."""
        while layer in self._parent:
            layer = self._parent[layer]
        return layer

    def resolve(self, index: int) -> int:
        """The layout that this one is equal to in every shape."""
        match self.layouts[index]:
            case LayerOutput(_, layer) if self.root(layer) in self._follows:
                return self.resolve(self._follows[self.root(layer)])
            case StageOutput(_, _, parts) if all(self.same(parts[0], part) for part in parts[1:]):
                return self.resolve(parts[0])
        return index

    def layer_of(self, index: int) -> str | None:
        """The layer whose output this layout is."""
        layout = self.layouts[self.resolve(index)]
        return layout.layer if isinstance(layout, LayerOutput) else None

    def same(self, one: int, two: int) -> bool:
        """Whether two layouts are equal in every shape."""
        one, two = self.resolve(one), self.resolve(two)
        match self.layouts[one], self.layouts[two]:
            case LayerOutput(_, a), LayerOutput(_, b):
                return self.root(a) == self.root(b)
            case FixedWidth(), FixedWidth():
                return True
            case Concat(_, ones), Concat(_, twos) if self._sizes(ones) == self._sizes(twos):
                return all(map(self.same, ones, twos))
            case Repeated(_, a, times), Repeated(_, b, others) if times == others:
                return self.same(a, b)
        return one == two

    def leaves(self, index: int) -> set[str]:
        """The layers whose widths this layout depends on."""
        layout = self.layouts[self.resolve(index)]
        if isinstance(layout, LayerOutput):
            return {layout.layer}
        return set().union(*map(self.leaves, layout.parts))

    def has_concat(self, index: int) -> bool:
        """Whether a concatenation, or flattened pixels, are part of this layout."""
        layout = self.layouts[self.resolve(index)]
        return isinstance(layout, Concat | Repeated) or any(map(self.has_concat, layout.parts))

    def freeze(self, index: int, reason: str) -> None:
        """Keep the widths of all layers in this layout as they are."""
        for layer in self.leaves(index):
            self.frozen.setdefault(self.root(layer), reason)

    def tie(self, one: int, two: int, reason: str) -> int:
        """Make two layouts equal in every shape; where that is impossible, freeze both."""
        one, two = self.resolve(one), self.resolve(two)
        if self.same(one, two):
            return one
        match self.layouts[one], self.layouts[two]:
            case Concat(_, ones), Concat(_, twos):
                edges = sorted({0} | self._edges(ones) | self._edges(twos))
                for ends in pairwise(edges):
                    pair = [part(self, index, *ends, reason) for index in (one, two)]
                    self.tie(pair[0], pair[1], reason)
                return one
            case Repeated(_, inner, times), Repeated(_, other, others) if times == others:
                self.tie(inner, other, reason)
                return one
        a, b = self.layer_of(one), self.layer_of(two)
        if a is not None and b is not None:
            kept, merged, unit = self.root(a), self.root(b), self.unit(b)
            self._parent[merged] = kept
            self.keep_together(one, unit, reason)
            if merged in self.frozen:
                self.frozen.setdefault(kept, self.frozen[merged])
            return one
        for layer, other in ((a, two), (b, one)):
            if layer is not None and self._can_follow(layer, other):
                self._follows[self.root(layer)] = other
                self.keep_together(other, self.unit(layer), reason)
                if self.root(layer) in self.frozen:
                    self.freeze(other, self.frozen[self.root(layer)])
                return other
        self.freeze(one, reason)
        self.freeze(two, reason)
        return one

    def count(self, index: int) -> Counter[str | int | None]:
        """The number of channels of a layout as a sum: how often each layer's width, each other
        layout's size, and (None) the number 1 are in it."""
        index = self.resolve(index)
        match self.layouts[index]:
            case FixedWidth(size):
                return Counter({None: size})
            case LayerOutput(_, layer):
                return Counter([self.root(layer)])
            case Concat(_, parts):
                return sum(map(self.count, parts), Counter())
            case Repeated(_, part, times):
                return Counter({name: times * n for name, n in self.count(part).items()})
        return Counter([index])

    def unit(self, layer: str) -> int:
        """The number of channels that stay together in the group of a layer."""
        return self._units.get(self.root(layer), 1)

    def keep_together(self, index: int, unit: int, reason: str) -> None:
        """Keep or drop each block of `unit` channels as a whole; where that is impossible, freeze
        the layout."""
        layout = self.layouts[self.resolve(index)]
        match layout:
            case LayerOutput(size, layer):
                self._units[self.root(layer)] = lcm(self.unit(layer), unit)
                if self.unit(layer) >= size > 1:
                    self.freeze(index, reason)
            case Union(_, parts) | StageOutput(_, _, parts):
                for part in parts:
                    self.keep_together(part, unit, reason)
            case Concat(_, parts) if not any(size % unit for size in self._sizes(parts)):
                for part in parts:
                    self.keep_together(part, unit, reason)
            case Repeated(_, part, times) if times % unit == 0 or unit % times == 0:
                self.keep_together(part, max(1, unit // times), reason)
            case _ if unit > 1:
                self.freeze(index, reason)

    def _sizes(self, parts: tuple[int, ...]) -> list[int]:
        return [self.layouts[part].size for part in parts]

    def _edges(self, parts: tuple[int, ...]) -> set[int]:
        return set(accumulate(self._sizes(parts)))

    def _can_follow(self, layer: str, index: int) -> bool:
        if isinstance(self.layouts[index], FixedWidth):
            return False
        return self.root(layer) not in {self.root(leaf) for leaf in self.leaves(index)}

    def groups(self, layers: list[str]) -> dict[str, str]:
        """For each layer that may change, the first layer of its group; `layers` in order."""
        first: dict[str, str] = {}
        for layer in sorted(layers, key=self.shortcuts.__contains__):
            first.setdefault(self.root(layer), layer)
        return {
            layer: first[self.root(layer)]
            for layer in layers
            if self.root(layer) not in self._follows and self.root(layer) not in self.frozen
        }

    def reasons(self, layers: list[str]) -> dict[str, str]:
        """The layers that keep their width, and why."""
        roots = {layer: self.root(layer) for layer in layers}
        return {layer: self.frozen[root] for layer, root in roots.items() if root in self.frozen}

    def settle(self, groups: dict[str, str]) -> tuple[list[Layout], dict[int, int]]:
        """The final layouts without duplicates, and the new index of each old one."""
        new_index: dict[int, int] = {}
        final: dict[Layout, int] = {}

        def settled(index: int) -> int:
            if index not in new_index:
                layout = renumbered(self.layouts[self.resolve(index)])
                new_index[index] = final.setdefault(layout, len(final))
            return new_index[index]

        def renumbered(layout: Layout) -> Layout:
            match layout:
                case LayerOutput(size, layer):
                    return LayerOutput(size, groups[layer]) if layer in groups else FixedWidth(size)
                case Union(size, parts):
                    return Union(size, tuple(dict.fromkeys(map(settled, parts))))
                case Concat() | StageOutput():
                    return replace(layout, parts=tuple(map(settled, layout.parts)))
                case Placed() | Repeated():
                    return replace(layout, part=settled(layout.part))
                case FixedWidth():
                    return layout

        for index in range(len(self.layouts)):
            settled(index)
        return list(final), new_index
