"""Which layers must have the same width, and which cannot change theirs."""

from .layouts import Concat, Fixed, Last, Layout, Own, Place, Repeat, Union

__all__ = ["Ties"]


class Ties:
    """Grows while a network is read; `settle` then gives every layout its final form.

    Layers whose widths are one choice form a group; a group may also follow a layout (a gate is as
    wide as what it gates), or be frozen at full width for a reason.
    """

    def __init__(self, layouts: list[Layout]) -> None:
        self.layouts = layouts
        self.frozen: dict[str, str] = {}
        self._parent: dict[str, str] = {}
        self._follows: dict[str, int] = {}
        self._shortcuts: set[str] = set()

    def root(self, layer: str) -> str:
        while layer in self._parent:
            layer = self._parent[layer]
        return layer

    def resolve(self, index: int) -> int:
        """The layout that this one comes down to."""
        match self.layouts[index]:
            case Own(_, layer) if self.root(layer) in self._follows:
                return self.resolve(self._follows[self.root(layer)])
            case Last(_, _, parts) if all(self.same(parts[0], part) for part in parts[1:]):
                return self.resolve(parts[0])
        return index

    def own(self, index: int) -> str | None:
        """The layer whose own width this is."""
        layout = self.layouts[self.resolve(index)]
        return layout.layer if isinstance(layout, Own) else None

    def same(self, one: int, two: int) -> bool:
        one, two = self.resolve(one), self.resolve(two)
        layers = self.own(one), self.own(two)
        return one == two or (None not in layers and len({self.root(str(n)) for n in layers}) == 1)

    def leaves(self, index: int) -> set[str]:
        """The layers that have a say in this layout."""
        match self.layouts[self.resolve(index)]:
            case Own(_, layer):
                return {layer}
            case Fixed():
                return set()
            case Place(_, part) | Repeat(_, part):
                return self.leaves(part)
            case Union(_, parts) | Concat(_, parts) | Last(_, _, parts):
                return set().union(*map(self.leaves, parts))

    def mixed(self, index: int) -> bool:
        """Whether a concatenation is part of this layout."""
        match self.layouts[self.resolve(index)]:
            case Concat() | Repeat():
                return True
            case Place(_, part):
                return self.mixed(part)
            case Union(_, parts) | Last(_, _, parts):
                return any(map(self.mixed, parts))
        return False

    def freeze(self, index: int, reason: str) -> None:
        for layer in self.leaves(index):
            self.frozen.setdefault(self.root(layer), reason)

    def mark_shortcut(self, index: int) -> None:
        """This layer gives no name to its group: it follows its block's last convolution."""
        layer = self.own(index)
        assert layer is not None
        self._shortcuts.add(layer)

    def tie(self, one: int, two: int, reason: str) -> int:
        """Make two layouts equal for every shape, by freezing both if there is no other way."""
        one, two = self.resolve(one), self.resolve(two)
        if self.same(one, two):
            return one
        match self.layouts[one], self.layouts[two]:
            case Concat(_, ones), Concat(_, twos) if self._sizes(ones) == self._sizes(twos):
                for part in zip(ones, twos, strict=True):
                    self.tie(*part, reason)
                return one
        a, b = self.own(one), self.own(two)
        if a is not None and b is not None:
            self._merge(self.root(a), self.root(b))
            return one
        for layer, other in ((a, two), (b, one)):
            if layer is not None and self._can_follow(layer, other):
                self._follows[self.root(layer)] = other
                if self.root(layer) in self.frozen:
                    self.freeze(other, self.frozen[self.root(layer)])
                return other
        self.freeze(one, reason)
        self.freeze(two, reason)
        return one

    def _sizes(self, parts: tuple[int, ...]) -> list[int]:
        return [self.layouts[part].size for part in parts]

    def _can_follow(self, layer: str, index: int) -> bool:
        if isinstance(self.layouts[index], (Fixed, Repeat)):
            return False
        return self.root(layer) not in {self.root(leaf) for leaf in self.leaves(index)}

    def _merge(self, one: str, two: str) -> None:
        self._parent[two] = one
        if two in self.frozen:
            self.frozen.setdefault(one, self.frozen[two])

    def groups(self, layers: list[str]) -> dict[str, str]:
        """For each layer with a choice the one that names its group; `layers` in order."""
        heads: dict[str, str] = {}
        for layer in sorted(layers, key=self._shortcuts.__contains__):
            heads.setdefault(self.root(layer), layer)
        return {
            layer: heads[self.root(layer)]
            for layer in layers
            if self.root(layer) not in self._follows and self.root(layer) not in self.frozen
        }

    def reasons(self, layers: list[str]) -> dict[str, str]:
        """The layers that keep their width, and why."""
        return {
            layer: self.frozen[self.root(layer)]
            for layer in layers
            if self.root(layer) in self.frozen
        }

    def settle(self, groups: dict[str, str]) -> tuple[list[Layout], dict[int, int]]:
        """Final layouts, parts before wholes, and where each of the old ones is among them."""
        final: list[Layout] = []
        place: dict[Layout, int] = {}
        where: dict[int, int] = {}

        def put(index: int) -> int:
            if index in where:
                return where[index]
            resolved = self.resolve(index)
            match self.layouts[resolved]:
                case Own(size, layer):
                    layout: Layout = Own(size, groups[layer]) if layer in groups else Fixed(size)
                case Union(size, parts):
                    settled = dict.fromkeys(map(put, parts))
                    layout = Union(size, tuple(settled))
                case Concat(size, parts):
                    layout = Concat(size, tuple(map(put, parts)))
                case Last(size, stage, parts):
                    layout = Last(size, stage, tuple(map(put, parts)))
                case Place(size, part, positions, zeros):
                    layout = Place(size, put(part), positions, zeros)
                case Repeat(size, part, times):
                    layout = Repeat(size, put(part), times)
                case Fixed() as fixed:
                    layout = fixed
            if layout not in place:
                place[layout] = len(final)
                final.append(layout)
            where[index] = place[layout]
            return where[index]

        for index in range(len(self.layouts)):
            put(index)
        return final, where
