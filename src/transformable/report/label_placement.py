"""Places names next to the points of a plot so that they cover neither each other nor a point."""

from collections.abc import Sequence
from dataclasses import dataclass

from .axes import Box

__all__ = ["Label", "marker_box", "place_labels"]

# the size of a letter at 12 px; that of a wide one, since the font is the reader's
LETTER_WIDTH, LETTER_HEIGHT = 6.8, 13
RADIUS = 6
NEAR, FAR = 9, (22, 36, 52)
STRAIGHT = ((1.0, 0.0), (-1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
DIRECTIONS = (*STRAIGHT, (0.7, -0.7), (0.7, 0.7), (-0.7, -0.7), (-0.7, 0.7))


@dataclass(frozen=True)
class Label:
    """Where a name starts, and the line that leads to it where it stands away from its point."""

    x: float
    y: float
    leader: Box | None


def marker_box(x: float, y: float) -> Box:
    """The box that a marker covers."""
    return x - RADIUS, y - RADIUS, x + RADIUS, y + RADIUS


def place_labels(
    names: Sequence[tuple[str, float, float]], taken: Sequence[Box], frame: Box
) -> list[Label | None]:
    """A place for each name (text, x and y of its point); None where there is no room for it.

    `taken` are the boxes that names may not cover; the first names are placed first.

    >>> place_labels([("a", 50, 50), ("b", 50, 50)], [marker_box(50, 50)], (0, 0, 100, 100))
    [Label(x=59.0, y=54.0, leader=None), Label(x=34.2, y=54.0, leader=None)]
    """
    full = list(taken)
    found = []
    for name, x, y in names:
        label, covered = _free_place(len(name) * LETTER_WIDTH, x, y, full, frame)
        found.append(label)
        full += [covered] if label else []
    return found


def _free_place(
    width: float, x: float, y: float, taken: Sequence[Box], frame: Box
) -> tuple[Label | None, Box]:
    for reach in (NEAR, *FAR):
        for right, down in DIRECTIONS:
            left = x + right * reach - width * (0 if right > 0 else 1 if right < 0 else 0.5)
            middle = y + down * (reach + 3)
            spot = (left, middle - LETTER_HEIGHT / 2, left + width, middle + LETTER_HEIGHT / 2)
            if _inside(spot, frame) and not any(_cover(spot, other) for other in taken):
                nearest = min(max(x, spot[0]), spot[2]), min(max(y, spot[1]), spot[3])
                leader = None if reach == NEAR else (x, y, *nearest)
                return Label(left, middle + 4, leader), spot
    return None, (x, y, x, y)


def _inside(spot: Box, frame: Box) -> bool:
    corners = spot[0] >= frame[0] and spot[1] >= frame[1]
    return corners and spot[2] <= frame[2] and spot[3] <= frame[3]


def _cover(a: Box, b: Box) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
